"""Requests in: each becomes a link for the frontier, be it a seed, known, refused or filtered."""
