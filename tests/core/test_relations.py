"""Link relations: the words of a rel, and the links of a header."""

from __future__ import annotations

from scrapy_frontier.core.parse.headers import parse_link_header, rel_tokens


def test_rel_is_a_set_of_words() -> None:
    assert rel_tokens(" NoFollow\tugc\nugc ") == {"nofollow", "ugc"}
    assert rel_tokens(None) == rel_tokens("") == frozenset()


def test_a_link_header_may_hold_several_links() -> None:
    line = (
        '</a,b;c>; rel="canonical next" ; title="x, \\"y\\"; rel=no", '
        '<b>;rel=prev;rel=next, <c>; rel=x; anchor="#y", junk'
    )
    assert [(link.target, set(link.rel), link.anchored) for link in parse_link_header(line)] == [
        ("/a,b;c", {"canonical", "next"}, False),
        ("b", {"prev"}, False),
        ("c", {"x"}, True),
    ]


def test_a_link_header_that_breaks_off_keeps_its_whole_links() -> None:
    assert [link.target for link in parse_link_header('<a>; rel="canonical, <b>')] == ["a"]
    assert parse_link_header("rel=canonical") == []
