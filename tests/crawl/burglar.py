"""A module that no project imports; whoever does leaves a trace."""

from pathlib import Path

from scrapy import Request

Path("burgled").touch()


class Loot(Request):
    """What a payload must not be able to make."""
