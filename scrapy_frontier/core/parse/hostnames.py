"""Host names and addresses as text: their one canonical form, and which of them are private.

Nothing is asked of the network.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import unquote_to_bytes

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
