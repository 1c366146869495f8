"""Decides when a page is worth another visit, by its visits and its change rate."""
