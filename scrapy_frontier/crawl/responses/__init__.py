"""What is read of a response: its head, its digest, its links, and by which rules they are followed."""
