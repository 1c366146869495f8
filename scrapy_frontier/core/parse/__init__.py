"""Parses text from sites: URLs, headers, HTML heads, robots.txt, sitemaps."""
