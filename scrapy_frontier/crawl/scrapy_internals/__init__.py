"""Scrapy's private names and parts: every touch of one, each with its fallback."""
