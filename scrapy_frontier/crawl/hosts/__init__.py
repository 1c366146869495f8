"""What a URL or a response tells of a host: its politeness key, if it is private, its troubles and rests."""
