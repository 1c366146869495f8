"""Downloader middlewares, one file a concern."""
