"""When a page is worth another visit: what its visits showed, how often it changes, what can be afforded."""
