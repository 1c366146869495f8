"""Computes what a page is worth, from the link graph and the content of pages."""
