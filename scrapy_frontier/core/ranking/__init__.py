"""What a page is worth: the link graph in, scores and how far off they may be out."""
