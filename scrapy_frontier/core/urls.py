"""URLs as text: read them as a browser does, and tell traps from pages.

Owns no state. `absolute` is what a crawler should call on anything found in a page (WHATWG URL Standard,
http and https only). The trap checks look at one URL alone, so that they can be asked before the URL costs
a row. Every function is linear in the length of the URL.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

import idna

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_PORTS = {"http": 80, "https": 443}


# --- RFC 3986 ---------------------------------------------------------------------------------------------

_PARTS = re.compile(
    r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)  # appendix B


def _split(url: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    match = _PARTS.fullmatch(url)
    assert match is not None  # every part is optional
    scheme, authority, path, query, fragment = match.groups()
    if scheme is not None and not _SCHEME.fullmatch(scheme):
        # "1:23" is a path: a scheme begins with a letter
        return None, None, f"{scheme}:{'' if authority is None else '//' + authority}{path}", query, fragment
    return scheme, authority, path, query, fragment


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


# --- WHATWG -----------------------------------------------------------------------------------------------


class _Url(NamedTuple):
    """A parsed http(s) URL: *authority* is serialised already, *path* its segments after the first slash."""

    scheme: str
    authority: str
    path: tuple[str, ...]
    query: str | None
    fragment: str | None

    def __str__(self) -> str:
        query = "" if self.query is None else f"?{self.query}"
        fragment = "" if self.fragment is None else f"#{self.fragment}"
        return f"{self.scheme}://{self.authority}/{'/'.join(self.path)}{query}{fragment}"


# What the parser returns unchanged, unless "/." shows a dot segment: most links. No escapes, a last label
# that is no number.
_PLAIN = re.compile(
    r"https?://(?:[a-z0-9_-]+\.)+[a-z][a-z0-9-]*/"
    r"[A-Za-z0-9._~!$&'()*+,;=:@/-]*(?:\?[A-Za-z0-9._~!$&()*+,;=:@/?-]*)?"
)
_LEADING_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL_OR_SPACE = "".join(map(chr, range(0x21)))
_TAB_OR_NEWLINE = str.maketrans("", "", "\t\n\r")
_AUTHORITY = re.compile(r"[^/\\?#]*")


def absolute(reference: str, base: str | None = None) -> str | None:
    """Return *reference* as a browser would request it from *base*; None when it is no http(s) URL or is
    refused.

    WHATWG URL Standard, basic URL parser and serialiser, with UTF-8 as the encoding: hosts in lower case
    and punycode, IPv4 in any notation as dotted decimals, default ports dropped, dot segments removed, what
    must be escaped escaped. The fragment is kept. *base* must be an http(s) URL itself, or relative
    references are refused.
    """
    if "/." not in reference and _PLAIN.fullmatch(reference):
        return reference
    url = _parse(reference, base)
    return None if url is None else str(url)


def _parse(reference: str, base: str | None) -> _Url | None:
    text = reference.strip(_CONTROL_OR_SPACE).translate(_TAB_OR_NEWLINE)
    match = _LEADING_SCHEME.match(text)
    if match is None:
        return None if base is None else _parse_relative(text, base)
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme not in DEFAULT_PORTS:
        return None
    # "http:foo" is relative to an http base, and "http:foo" without one names the host foo: browsers agree
    # on both.
    if not rest.startswith("//") and base is not None:
        parent = _parse(base, None)
        if parent is not None and parent.scheme == scheme:
            return _relative_to(rest, parent)
    return _with_authority(rest.lstrip("/\\"), scheme)


def _parse_relative(text: str, base: str) -> _Url | None:
    parent = _parse(base, None)
    return None if parent is None else _relative_to(text, parent)


def _relative_to(text: str, base: _Url) -> _Url | None:
    if text[:1] in ("/", "\\"):
        if text[1:2] in ("/", "\\"):
            return _with_authority(text.lstrip("/\\"), base.scheme)
        return _with_path(text[1:], base.scheme, base.authority, ())
    if not text or text[0] in "?#":
        _, query, fragment = _cut(text)
        kept = base.query if query is None else _escape(query, _QUERY)
        return base._replace(query=kept, fragment=_escape_or_none(fragment, _FRAGMENT))
    return _with_path(text, base.scheme, base.authority, base.path[:-1])


def _with_authority(text: str, scheme: str) -> _Url | None:
    match = _AUTHORITY.match(text)
    assert match is not None
    authority = _authority(match[0], scheme)
    if authority is None:
        return None
    rest = text[match.end() :]
    return _with_path(rest[1:] if rest[:1] in ("/", "\\") else rest, scheme, authority, ())


def _with_path(text: str, scheme: str, authority: str, parents: tuple[str, ...]) -> _Url:
    path, query, fragment = _cut(text)
    segments = list(parents)
    pieces = path.replace("\\", "/").split("/")
    for piece in pieces:
        dots = piece.lower().replace("%2e", ".")
        if dots == "..":
            del segments[-1:]
        elif dots != ".":
            segments.append(_escape(piece, _PATH))
    if dots in (".", ".."):
        segments.append("")
    return _Url(
        scheme,
        authority,
        tuple(segments),
        _escape_or_none(query, _QUERY),
        _escape_or_none(fragment, _FRAGMENT),
    )


def _cut(text: str) -> tuple[str, str | None, str | None]:
    """Split *text* into path, query and fragment; None stands for a part that is not there."""
    text, hash_sign, fragment = text.partition("#")
    path, question_mark, query = text.partition("?")
    return path, query if question_mark else None, fragment if hash_sign else None


# The percent-encode sets of section 1.3; non-ASCII and controls are always in.
_FRAGMENT = frozenset(' "<>`')
_QUERY = frozenset(" \"#<>'")
_PATH = frozenset(' "#<>?^`{}')
_USERINFO = _PATH | frozenset("/:;=@[\\]|")


def _escape(text: str, must: frozenset[str]) -> str:
    if text.isascii() and text.isprintable() and must.isdisjoint(text):
        return text
    octets = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    return "".join(map(_spelling(must).__getitem__, octets))


@cache
def _spelling(must: frozenset[str]) -> tuple[str, ...]:
    """Return how each of the 256 octets is written; to ask for each octet anew takes four times as long."""
    return tuple(
        chr(octet) if 0x20 <= octet < 0x7F and chr(octet) not in must else f"%{octet:02X}"
        for octet in range(256)
    )


def _escape_or_none(text: str | None, must: frozenset[str]) -> str | None:
    return None if text is None else _escape(text, must)


def _authority(text: str, scheme: str) -> str | None:
    """Serialise ``userinfo@host:port``; None when the host or the port is refused."""
    userinfo, at, hostport = text.rpartition("@")
    host, digits = _host_and_port(hostport)
    name = host_name(host)
    port = _port(digits, scheme)
    if name is None or port is None:
        return None
    return (_userinfo(userinfo) if at else "") + name + port


def _port(digits: str, scheme: str) -> str | None:
    """Serialise a port: empty when it is missing or the default, None when it is refused."""
    if not digits:
        return ""
    significant = digits.lstrip("0") or "0"
    if not (digits.isascii() and digits.isdigit()) or len(significant) > 5 or int(significant) > 65535:
        return None
    return "" if int(significant) == DEFAULT_PORTS[scheme] else f":{significant}"


def _host_and_port(text: str) -> tuple[str, str]:
    end = text.find("]") if text.startswith("[") else 0
    colon = text.find(":", max(end, 0))
    return (text, "") if colon < 0 else (text[:colon], text[colon + 1 :])


def _userinfo(text: str) -> str:
    user, _, password = text.partition(":")
    user, password = _escape(user, _USERINFO), _escape(password, _USERINFO)
    if password:
        return f"{user}:{password}@"
    return f"{user}@" if user else ""


_FORBIDDEN_IN_HOST = re.compile(r"[\x00-\x20#%/:<>?@\[\\\]^|\x7f]")


def host_name(text: str) -> str | None:
    """Return the host as requests will name it: lower case, punycode, IP addresses in their one canonical
    form.

    None when browsers refuse it (WHATWG URL Standard section 3.5, UTS #46 without length limits).
    """
    if text.startswith("["):
        return _ipv6(text[1:-1]) if text.endswith("]") else None
    if "%" in text:
        text = unquote_to_bytes(text).decode("utf-8", "replace")
    name = text.lower() if text.isascii() else _punycode(text)
    if not name or _FORBIDDEN_IN_HOST.search(name):
        return None
    return _ipv4(name) if _ends_in_number(name) else name


def _punycode(text: str) -> str | None:
    try:
        labels = idna.uts46_remap(text, std3_rules=False).split(".")
        return ".".join(map(_ascii_label, labels))
    except ValueError:  # what idna and the codecs raise
        return None


def _ascii_label(label: str) -> str:
    """Check one mapped *label* (UTS #46 4.1) and write it in ASCII; raises ValueError when it is none."""
    if not label.startswith("xn--"):
        return label if label.isascii() else "xn--" + _checked(label).encode("punycode").decode("ascii")
    plain = label.removeprefix("xn--").encode("ascii").decode("punycode")
    if plain.isascii() or idna.uts46_remap(plain, std3_rules=False) != plain:
        raise ValueError("punycode of what needs none, or of what no browser writes")
    _checked(plain)
    return label


def _checked(label: str) -> str:
    idna.check_initial_combiner(label)
    idna.check_bidi(label)
    for place, character in enumerate(label):
        if character in "\u200c\u200d" and not idna.valid_contextj(label, place):
            raise ValueError("a joiner where nothing joins")
    return label


def _ends_in_number(name: str) -> bool:
    labels = name.removesuffix(".").split(".")
    return labels[-1].isdigit() or _number(labels[-1]) is not None


_HEX = re.compile(r"0[xX][0-9A-Fa-f]*")


def _number(text: str) -> int | None:
    """Read one part of an IPv4 address: decimal, octal after ``0``, hexadecimal after ``0x``; None when it
    is none.
    """
    if _HEX.fullmatch(text):
        return int(text[2:] or "0", 16) if len(text) < 64 else 1 << 64
    if not text.isdigit() or not text.isascii():
        return None
    if len(text) > 64:
        return 1 << 64
    if len(text) > 1 and text[0] == "0":
        return int(text, 8) if not set(text) & set("89") else None
    return int(text)


def _ipv4(name: str) -> str | None:
    parts = name.removesuffix(".").split(".")
    numbers = [_number(part) for part in parts]
    if len(numbers) > 4:
        return None
    address = 0
    for index, number in enumerate(numbers):
        last = index == len(numbers) - 1
        if number is None or number >= (256 ** (5 - len(numbers)) if last else 256):
            return None
        address += number if last else number << 8 * (3 - index)
    return str(ipaddress.IPv4Address(address))


def _ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text) if "%" not in text else None
    except ValueError:
        return None
    if address is None:
        return None
    groups = [f"{int(address) >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    start, length = _longest_zeros(groups)
    if length < 2:
        return f"[{':'.join(groups)}]"
    return f"[{':'.join(groups[:start])}::{':'.join(groups[start + length :])}]"


def _longest_zeros(groups: list[str]) -> tuple[int, int]:
    best = (0, 0)
    start = 0
    for index, group in enumerate(groups):
        if group != "0":
            start = index + 1
        elif index + 1 - start > best[1]:
            best = (start, index + 1 - start)
    return best


# --- small questions --------------------------------------------------------------------------------------


# The usual host: in lower case, its last label no number, no port; a tenth of the time of a whole parse.
_PLAIN_ORIGIN = re.compile(r"(https?://(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*)(?=[/?#]|\Z)").match


def origin(url: str) -> str | None:
    """Return ``scheme://host:port`` of an http(s) URL, port left out when it is the default; None for any
    other text.

    Two URLs share credentials, and one robots.txt, exactly when their origins are equal (RFC 6454, RFC 9309
    2.3).
    """
    plain = _PLAIN_ORIGIN(url)
    if plain is not None:
        return plain[1]
    parsed = _parse(url, None)
    return None if parsed is None else f"{parsed.scheme}://{parsed.authority.rpartition('@')[2]}"


def without_fragment(url: str) -> str:
    return url.partition("#")[0]


def is_private(host: str) -> bool:
    """Is *host* (canonical, see `host_name`) a name or an address that only means something on a local
    network?

    IANA special-purpose registries as `ipaddress` knows them, plus ``localhost`` (RFC 6761) and single
    labels. A public name may still resolve to a private address: ask again with the address once it is
    known.
    """
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        name = host.removesuffix(".")
        return "." not in name or name.endswith((".localhost", ".local", ".internal", ".home.arpa"))
    mapped = getattr(address, "ipv4_mapped", None)
    return not (mapped or address).is_global or (mapped or address).is_multicast


def escaped_fragment(url: str) -> str | None:
    """Return the crawlable form of an AJAX URL (``#!state`` as ``_escaped_fragment_=state``); None without
    ``#!``.

    Google's "Making AJAX applications crawlable" (2009, withdrawn 2015): controls, space, ``# % & +`` and
    everything above 0x7E in the state are escaped.
    """
    address, bang, state = url.partition("#!")
    if not bang:
        return None
    escaped = "".join(
        f"%{octet:02X}" if octet <= 0x20 or octet >= 0x7F or octet in b"#%&+" else chr(octet)
        for octet in state.encode()
    )
    joint = "&" if "?" in address else "?"
    return f"{address}{joint}_escaped_fragment_={escaped}"


# --- traps ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrapLimits:
    """Where a URL stops looking like a page. Zero switches a check off."""

    # characters; the longest URL Internet Explorer took, and so the longest a public page has
    length: int = 2083
    depth: int = 20  # path segments; Heritrix's default
    repeats: int = 3  # the same run of segments in a row; Heritrix and Nutch refuse the third


def trap(url: str, limits: TrapLimits) -> str | None:
    """Return why *url* looks like a trap: ``length``, ``depth`` or ``repeated-segments``; None when it does
    not, which takes a microsecond.
    """
    if limits.length and len(url) > limits.length:
        return "length"
    segments_at_most = url.count("/") - 2
    if segments_at_most < limits.repeats and (not limits.depth or segments_at_most <= limits.depth):
        return None
    # An absolute URL has two slashes more than its path has segments, and no run of segments stands there
    # three times without one segment that does.
    pieces = url.partition("?")[0].partition("#")[0].split("/")
    is_deep = limits.depth and len(pieces) - 3 > limits.depth
    if not is_deep and (not limits.repeats or len(pieces) - len(set(pieces)) < limits.repeats - 1):
        return None
    segments = path_segments(url)
    if limits.depth and len(segments) > limits.depth:
        return "depth"
    if limits.repeats and repeats(segments) >= limits.repeats:
        return "repeated-segments"
    return None


def path_segments(url: str) -> list[str]:
    """Return the non-empty segments of the path of an absolute *url*."""
    _, _, path, _, _ = _split(url)
    return [segment for segment in path.split("/") if segment]


def repeats(segments: Sequence[str]) -> int:
    """Return how often the most repeated run of *segments* stands in a row: ``/a/b/a/b/a/b`` gives 3.

    Quadratic in the number of segments at worst; callers bound that by the depth limit. Reads at most 64
    segments.
    """
    head = segments[:64]  # with the depth check switched off, a long path must stay cheap
    best = min(len(head), 1)
    for period in range(1, len(head) // 2 + 1):
        equal = 0
        for index in range(period, len(head)):
            equal = equal + 1 if head[index] == head[index - period] else 0
            best = max(best, equal // period + 1)
    return best


def grows(chain: Sequence[str], *, steps: int = 5) -> bool:
    """Do the last *steps* URLs of a redirect *chain* each carry the one before in themselves, and more?

    A login page that wraps its own address, a ``/next/next/next`` without end: same origin, and path and
    query of each URL stand, as they are or percent-encoded, inside the longer one of the next.
    """
    tail = chain[-steps:]
    return len(tail) == steps > 1 and all(_contains(after, before) for before, after in pairwise(tail))


def _contains(after: str, before: str) -> bool:
    if origin(after) != origin(before):
        return False
    inner, outer = _wire_target(before).strip("/"), _wire_target(after)
    return len(outer) > len(_wire_target(before)) and (inner in outer or inner in unquote(outer))


def _wire_target(url: str) -> str:
    _, _, path, query, _ = _split(url)
    return path if query is None else f"{path}?{query}"


_SESSION_NAMES = (
    r"(?:jsessionid|phpsessid|aspsessionid[a-z]*|sessionid|session_id|sessid|cfid|cftoken|sid|zenid|oscsid)"
)
_SESSION_VALUE = r"[A-Za-z0-9_.%!-]{8,}"  # ids are long; "?sid=12" is a shop's section
_SESSION_QUERY = re.compile(rf"(?i)(?<=[?&]){_SESSION_NAMES}={_SESSION_VALUE}(?:&|(?=#)|$)")
_SESSION_PATH = re.compile(
    rf"(?i);{_SESSION_NAMES}={_SESSION_VALUE}|/\((?:[SAFX]\([A-Za-z0-9_-]{{20,}}\))+\)(?=/)"
)


def without_session(url: str) -> str:
    """Return *url* without the session identifiers it carries in its query or path; *url* itself when it
    has none.

    Names as Nutch, Heritrix and crawler-commons list them (JSP, PHP, ASP and ASP.NET, ColdFusion), values
    of eight characters or more.
    """
    if "=" not in url and "(" not in url:
        return url
    clean = _SESSION_QUERY.sub("", _SESSION_PATH.sub("", url))
    if clean == url:
        return url
    address, hash_sign, fragment = clean.partition("#")
    return address.rstrip("&").removesuffix("?") + hash_sign + fragment
