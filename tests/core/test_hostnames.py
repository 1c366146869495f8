"""Host names: what a browser makes of them, and which ones mean something only in a local network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_frontier.core.parse.urls import host_name, is_private


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("\u0915\u094d\u200d\u0937", "xn--11b2ezcw70k"),  # behind a virama a joiner shapes the letter
        ("\u0646\u0627\u0645\u0647\u200c\u0627\u06cc", "xn--mgba3gch31f060k"),  # between two that join
        ("ex\u200cample", None),  # shows nothing: another host in the dress of this one
        ("\u200d", None),
        ("xn--bcher-kva.b\u00fccher", "xn--bcher-kva.xn--bcher-kva"),
        ("xn--.\u00fc", None),
        ("xn--abc-.\u00fc", None),  # punycode of plain ASCII
        ("xn--fcher-7ya.\u00fc", "xn--fcher-7ya.xn--tda"),
        ("xn--BCHER-KVA.\u00fc", "xn--bcher-kva.xn--tda"),
        ("xn--a-ecp.\u00fc", None),  # a joiner, in punycode
    ],
)
def test_a_host_of_other_letters_is_what_idna_allows(host: str, name: str | None) -> None:
    """UTS #46 with its checks for joiners and of the labels that come in punycode (WHATWG URL 3.3)."""
    assert host_name(host) == name


@given(st.text(max_size=30))
def test_no_host_name_breaks_the_parser(text: str) -> None:
    name = host_name(text)
    assert name is None or host_name(name) == name


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("169.254.169.254", True),
        ("[::1]", True),
        ("[fd00::1]", True),
        ("[::ffff:c0a8:1]", True),
        ("224.0.0.1", True),
        ("localhost", True),
        ("printer.local", True),
        ("intranet", True),
        ("93.184.216.34", False),
        ("[2606:2800:220:1:248:1893:25c8:1946]", False),
        ("example.org", False),
        ("local.example.org", False),
    ],
)
def test_private_hosts_are_told_from_public_ones(host: str, private: bool) -> None:
    assert is_private(host) is private


def test_every_notation_of_a_private_address_is_seen_once_it_is_canonical() -> None:
    for notation in ("0x7f000001", "2130706433", "017700000001", "127.1", "%31%32%37.0.0.1"):
        name = host_name(notation)
        assert name == "127.0.0.1"
        assert is_private(name)
