"""Which redirects are followed."""

from __future__ import annotations

import pytest

from scrapy_frontier.core.parse import directives
from scrapy_frontier.core.parse.directives import (
    ChainLimits,
    is_private_url,
    refusal,
    without_foreign_userinfo,
)

A, B = "http://a.example/", "http://b.example/"
PUBLIC = ChainLimits()


def why(chain: list[str], target: str, limits: ChainLimits = PUBLIC, from_private: bool = False) -> str:
    found = refusal(chain, target, limits, from_private)
    return found.name if found else ""


def test_an_ordinary_chain_is_followed() -> None:
    shortened = ["http://t.example/x", "http://bit.example/y", "http://shop.example/p?utm=1"]
    assert why(shortened, "https://www.shop.example/p") == ""


@pytest.mark.parametrize("target", ["ftp://a.example/", "file:///etc/passwd", "data:,x", "javascript:x()"])
def test_only_http_is_followed(target: str) -> None:
    assert why([A], target) == "scheme"


def test_a_page_may_come_again_on_the_way_round() -> None:
    assert why([A], A) == ""
    assert why([A, B], A + "#top") == ""
    assert why([A, B, A], B) == ""
    assert why([A, B, A, B], A) == ""
    assert why([A, B, A, B, A], B) == ""
    assert why([A, B, A, B, A, B], A) == "loop"
    assert why([A, A, A], A) == "loop"


def test_a_login_page_that_wraps_itself_grows() -> None:
    chain = [A + "login"]
    while not (found := why(chain, chain[-1] + "/login")):
        chain.append(chain[-1] + "/login")
        assert len(chain) < 10
    assert found == "growing"


def test_hosts_of_a_chain_are_counted_and_ports_and_schemes_are_not() -> None:
    chain = [f"http://{name}.example/" for name in "abcde"]
    assert why(chain, "http://f.example/") == "hosts"
    assert why(chain, "https://e.example:8443/") == ""
    assert why(chain, "http://f.example/", ChainLimits(most_hosts=0)) == ""


@pytest.mark.parametrize(
    "target",
    [
        "http://10.0.0.1/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://[::1]:8080/",
        "http://[::ffff:192.168.0.1]/",
        "http://localhost/",
        "http://router.local/",
        "http://169.254.169.254/latest/meta-data/",
        "http://intranet/",
        "http://user@172.16.0.1/",
    ],
)
def test_a_public_page_leads_into_no_private_network(target: str) -> None:
    assert is_private_url(target)
    assert why([A], target) == "private"
    assert why([A], target, ChainLimits(allows_private=True)) == ""
    assert why([A], target, from_private=True) == ""


def test_public_addresses_are_no_private_ones() -> None:
    assert not is_private_url("http://93.184.215.14/")
    assert not is_private_url("http://[2606:2800:21f::1]/")
    assert not is_private_url("http://[broken/")


def test_credentials_in_a_url_stay_with_their_origin() -> None:
    own = "http://me:secret@a.example/next"
    assert without_foreign_userinfo(own, "http://me:secret@a.example/") == own
    assert without_foreign_userinfo(own, B) == "http://a.example/next"
    assert without_foreign_userinfo(own, "https://a.example/") == "http://a.example/next"
    assert without_foreign_userinfo("http://me@a.example:81/?x@y", A) == "http://a.example:81/?x@y"
    assert without_foreign_userinfo("http://b.example/@me", A) == "http://b.example/@me"


def test_every_refusal_has_a_name_and_a_reason_of_its_own() -> None:
    assert len({each.name for each in directives.REFUSALS}) == len(directives.REFUSALS)
    assert len({each.reason for each in directives.REFUSALS}) == len(directives.REFUSALS)
