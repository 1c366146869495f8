"""Link relations: what a ``rel`` says about a link, in a page and in a Link header."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


def rel_tokens(rel: str | None) -> frozenset[str]:
    """Return the link types of a rel attribute, in lower case: ``nofollow``, ``ugc``, ``sponsored``,
    ``canonical``...
    """
    return frozenset((rel or "").lower().split())


def shared_rel(rels: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the types that *every* link of a page to one URL carries: linked once without nofollow, it is
    followed.
    """
    rels = list(rels)
    return frozenset.intersection(*rels) if rels else frozenset()


class LinkValue(NamedTuple):
    """One link of a Link header. *anchored*: it is about another resource than the one fetched."""

    target: str
    rel: frozenset[str]
    anchored: bool


_LINK_TARGET = re.compile(r"[ \t,]*<([^>]*)>")
_LINK_PARAMETER = re.compile(
    r"""[ \t]*;[ \t]*([^ \t=;,"]*)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"?|([^ \t;,"]*)))?"""
)


def parse_link_header(line: str) -> list[LinkValue]:
    """Read one Link header line (RFC 8288): ``<target>; rel="canonical next"; ..., <target>; ...``.

    The first rel of a link counts (3.3). Stops at the first place that is no link; what stood before it
    counts.
    """
    links: list[LinkValue] = []
    place = 0
    while (match := _LINK_TARGET.match(line, place)) is not None:
        place = match.end()
        parameters: dict[str, str] = {}
        while (parameter := _LINK_PARAMETER.match(line, place)) is not None:
            place = parameter.end()
            name, quoted, plain = parameter.groups()
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            parameters.setdefault(name.lower(), value or "")
        links.append(LinkValue(match[1].strip(), rel_tokens(parameters.get("rel")), "anchor" in parameters))
    return links
