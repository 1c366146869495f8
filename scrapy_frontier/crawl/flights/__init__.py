"""Requests under way, from hand-out to release, and those that follow from them."""
