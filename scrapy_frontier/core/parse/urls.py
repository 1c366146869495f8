"""URLs as text: what a browser makes of a reference, and the parts of a URL that others ask for.

Owns no state. `absolute` is what a crawler should call on anything found in a page (WHATWG URL Standard,
http and https only). Every function is linear in the length of the URL.

Host names and addresses as text: their one canonical form, and which of them are private.

Nothing is asked of the network.
"""

from __future__ import annotations

import ipaddress
import re
from codecs import register_error
from contextlib import suppress
from functools import cache, lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import idna

_FORBIDDEN_IN_HOST = re.compile(r"[\x00-\x20#%/:<>?@\[\\\]^|\x7f]")


def host_name(text: str) -> str | None:
    """Return the host as requests will name it: lower case, punycode, IP addresses in their one canonical
    form.

    None when browsers refuse it (WHATWG URL Standard section 3.5, UTS #46 without length limits).
    """
    if text.startswith("["):
        return _ipv6(text[1:-1]) if text.endswith("]") else None
    if "%" in text:
        text = unquote_to_bytes(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    name = text.lower() if text.isascii() else _punycode(text)
    if not name or _FORBIDDEN_IN_HOST.search(name):
        return None
    last = name.removesuffix(".").rpartition(".")[2]
    return _ipv4(name) if last.isdigit() or _number(last) is not None else name


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
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    if address.scope_id is not None:
        return None
    if address.ipv4_mapped is not None:  # newer Pythons write one in dotted decimals
        return f"[::ffff:{int(address) >> 16 & 0xFFFF:x}:{int(address) & 0xFFFF:x}]"
    return f"[{address}]"


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


DEFAULT_PORTS = {"http": 80, "https": 443}


class _Url(NamedTuple):
    """A parsed http(s) URL: *authority* is serialised already, *path* its segments after the first slash,
    *query* and *fragment* begin with their marks, or are empty where there is none."""

    scheme: str
    authority: str
    path: tuple[str, ...]
    query: str
    fragment: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/{'/'.join(self.path)}{self.query}{self.fragment}"


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


def absolute(reference: str, base: str = "", encoding: str = "utf-8") -> str | None:
    """Return *reference* as a browser would request it from *base*; None when it is no http(s) URL or is
    refused.

    WHATWG URL Standard, basic URL parser and serialiser: hosts in lower case and punycode, IPv4 in any
    notation as dotted decimals, default ports dropped, dot segments removed, what must be escaped escaped.
    The fragment is kept. *base* must be an http(s) URL itself, or relative references are refused. A query is
    sent in the *encoding* of the page that holds the reference (a codec of Python), all else in UTF-8.
    """
    if "/." not in reference and _PLAIN.fullmatch(reference):
        return reference
    if encoding != "utf-8" and not reference.isascii():
        reference = _with_encoded_query(reference, encoding)
    url = _parse(reference, base)
    return None if url is None else str(url)


_BEYOND_ASCII = re.compile("[^\\0-\\x7f]+")


def _with_encoded_query(reference: str, encoding: str) -> str:
    """Escape what is not ASCII in the query as octets of *encoding*; UTF-8 stands for UTF-16, UTF-32 and what
    is no encoding of text (Encoding Standard 4.3)."""
    if encoding.startswith(("utf-16", "utf-32")):
        return reference
    address, hash_sign, fragment = reference.partition("#")
    path, question_mark, query = address.partition("?")
    spelling = _spelling(_QUERY)
    with suppress(LookupError, UnicodeError):
        query = _BEYOND_ASCII.sub(
            lambda found: "".join(map(spelling.__getitem__, found[0].encode(encoding, _LACKING))), query
        )
    return f"{path}{question_mark}{query}{hash_sign}{fragment}"


_LACKING = "scrapy_frontier.query"


def _as_references(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding lacks as browsers do, as escaped references to the characters."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(character)}%3B" for character in lacking), error.end


register_error(_LACKING, _as_references)


def _parse(reference: str, base: str = "") -> _Url | None:
    text = reference.strip(_CONTROL_OR_SPACE).translate(_TAB_OR_NEWLINE)
    match = _LEADING_SCHEME.match(text)
    if match is None:
        parent = _parsed(base) if base else None
        return None if parent is None else _relative_to(text, parent)
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme not in DEFAULT_PORTS:
        return None
    # "http:foo" is relative to an http base, and "http:foo" without one names the host foo: browsers agree
    # on both.
    if base and not rest.startswith("//"):
        parent = _parsed(base)
        if parent is not None and parent.scheme == scheme:
            return _relative_to(rest, parent)
    return _with_authority(rest.lstrip("/\\"), scheme)


@lru_cache(maxsize=16)
def _parsed(base: str) -> _Url | None:
    """Parse what many references start from, one after the other."""
    return _parse(base)


def _relative_to(text: str, base: _Url) -> _Url | None:
    if text[:1] in ("/", "\\"):
        if text[1:2] in ("/", "\\"):
            return _with_authority(text.lstrip("/\\"), base.scheme)
        return _with_path(text[1:], base.scheme, base.authority, ())
    if not text or text[0] in "?#":
        _, query, fragment = _cut(text)
        kept = _escape(query, _QUERY) if query else base.query
        return base._replace(query=kept, fragment=_escape(fragment, _FRAGMENT))
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
    return _Url(scheme, authority, tuple(segments), _escape(query, _QUERY), _escape(fragment, _FRAGMENT))


def _cut(text: str) -> tuple[str, str, str]:
    """Split *text* into path, query and fragment, these with their marks; empty where there is none."""
    text, hash_sign, fragment = text.partition("#")
    path, question_mark, query = text.partition("?")
    return path, question_mark + query, hash_sign + fragment


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


# The usual host: in lower case, its last label no number, no port; a tenth of the time of a whole parse.
_PLAIN_ORIGIN = re.compile(r"(https?://(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*)(?=[/?#]|\Z)").match


def origin_of(url: str) -> str | None:
    """Return ``scheme://host:port`` of an http(s) URL, port left out when it is the default; None for any
    other text.

    Two URLs share credentials, and one robots.txt, exactly when their origins are equal (RFC 6454, RFC 9309
    2.3).
    """
    plain = _PLAIN_ORIGIN(url)
    if plain is not None:
        return plain[1]
    parsed = _parse(url)
    return None if parsed is None else f"{parsed.scheme}://{parsed.authority.rpartition('@')[2]}"


def origin_text(url: str) -> str:
    """Return scheme and authority of *url* as they are written there: of one origin, though not all of its
    URLs begin so."""
    return "/".join(url.split("/", 3)[:3])


def without_fragment(url: str) -> str:
    """Return *url* up to its first ``#``."""
    return url.partition("#")[0]


_STATE = frozenset(" #%&+")  # of an AJAX page: what of it is escaped, besides what always is


def escaped_fragment(url: str) -> str | None:
    """Return the crawlable form of an AJAX URL (``#!state`` as ``_escaped_fragment_=state``); None without
    ``#!``.

    Google's "Making AJAX applications crawlable" (2009, withdrawn 2015): controls, space, ``# % & +`` and
    everything above 0x7E in the state are escaped.
    """
    address, bang, state = url.partition("#!")
    if not bang:
        return None
    joint = "&" if "?" in address else "?"
    return f"{address}{joint}_escaped_fragment_={_escape(state, _STATE)}"


def ajax_form(url: str) -> str:
    """Return the crawlable form of a page that asks for it itself and has no state in its *url*."""
    return escaped_fragment(without_fragment(url) + "#!") or url


_PLAIN_HOST = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]+)?(?=[/?#]|$)").match


def host_of(url: str) -> str:
    """The hostname in lower case, without port, fit for a key; empty where there is none."""
    plain = _PLAIN_HOST(url)
    if plain is not None:
        return plain[1]
    try:
        return clean_host(urlsplit(url).hostname or "")
    except ValueError:
        return ""


def clean_host(host: str) -> str:
    """A host name that can stand in a key: no NUL, and ``?`` for each lone surrogate. Case is left as it
    is."""
    return host.replace("\0", "").encode(errors="replace").decode()


# The expression of RFC 3986, appendix B: what stands behind scheme and authority. Without a scheme all is the
# path, which may begin with two slashes.
_TARGET = re.compile(r"(?:[^:/?#]+:(?://[^/?#]*)?)?([^#]*)").match


def wire_target(url: str) -> str:
    """Return path and query of *url*, or of a path, as they go on the wire: at least ``/``, no fragment."""
    match = _TARGET(url)
    assert match is not None  # every part is optional
    target = match[1]
    return target if target.startswith("/") else f"/{target}"


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
