"""What a URL or a response tells of a host: its politeness key, whether it is private, its troubles."""
