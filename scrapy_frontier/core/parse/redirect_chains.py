"""Which redirects are followed: how a chain may go on, and where it may lead.

Plain data in and out. A chain is the URLs of a redirect from its first page to the one that answers now;
the target is where that answer points.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from .hostnames import host_name, is_private
from .urls import DEFAULT_PORTS, host_of, origin_of, wire_target, without_fragment

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ChainLimits:
    """``most_hosts`` different hosts in a chain, its first included (0: no limit); ``allows_private``: public
    pages may lead into private networks."""

    most_hosts: int = 5
    allows_private: bool = False


class ChainRefusal(NamedTuple):
    """Why a redirect is not followed: a word for the stats, and a reason for people."""

    name: str
    reason: str


TOO_LONG = ChainRefusal("chain", "its chain of redirects is too long")
NO_HTTP = ChainRefusal("scheme", "that is no address of http or https")
LOOP = ChainRefusal("loop", "it goes round in a circle")
GROWING = ChainRefusal("growing", "each address of the chain holds the one before, and more")
TOO_MANY_HOSTS = ChainRefusal("hosts", "its chain leads through too many hosts")
PRIVATE = ChainRefusal("private", "a public page may not lead into a private network")
_STEPS = 5  # of a chain that grows without end
REFUSALS = (TOO_LONG, NO_HTTP, LOOP, GROWING, TOO_MANY_HOSTS, PRIVATE)


def refusal(
    chain: Sequence[str], target: str, limits: ChainLimits, from_private: bool
) -> ChainRefusal | None:
    """Why the last page of *chain* may not lead to *target*, or None.

    A page that was met may be led to again, for many set a cookie on the way round; the third time it is a
    loop. *from_private* says that the last page came from a private network. How many redirects there
    were is not counted here.
    """
    if target.partition(":")[0].lower() not in DEFAULT_PORTS:
        return NO_HTTP
    bare = without_fragment(target)
    if sum(without_fragment(url) == bare for url in chain) > 2:
        return LOOP
    if grows([*chain, target]):
        return GROWING
    if limits.most_hosts and len({host_of(url) for url in (*chain, target)}) > limits.most_hosts:
        return TOO_MANY_HOSTS
    if not (limits.allows_private or from_private) and is_private_url(target):
        return PRIVATE
    return None


def is_private_url(url: str) -> bool:
    """Whether the host of *url* only means something on a local network, as far as its name tells: nobody is
    asked for its address. False for what is no URL."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    name = host_name(f"[{host}]" if ":" in host else host)
    return name is not None and is_private(name)


def without_foreign_userinfo(target: str, source: str) -> str:
    """*target* without the user and password in it, unless it has the origin of *source*."""
    if "@" not in target or origin_of(target) == origin_of(source):
        return target
    parts = urlsplit(target)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def is_same_site(one: str, other: str) -> bool:
    """Whether two URLs have the same host, a ``www.`` in front left aside; scheme and port do not count."""
    return host_of(one).removeprefix("www.") == host_of(other).removeprefix("www.")


def grows(chain: Sequence[str]) -> bool:
    """Do the last five URLs of a redirect *chain* each carry the one before in themselves, and more?

    A login page that wraps its own address, a ``/next/next/next`` without end: same origin, and path and
    query of each URL stand, as they are or percent-encoded, inside the longer one of the next.
    """
    tail = chain[-_STEPS:]
    return len(tail) == _STEPS and all(_contains(after, before) for before, after in pairwise(tail))


def _contains(after: str, before: str) -> bool:
    if origin_of(after) != origin_of(before):
        return False
    shorter, longer = wire_target(before), wire_target(after)
    inner = shorter.strip("/")
    return len(longer) > len(shorter) and (inner in longer or inner in unquote(longer))
