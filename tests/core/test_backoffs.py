"""How long a page waits after an attempt that failed."""

from scrapy_frontier.core.pages.queue import LONGEST_BACKOFF, backoff


def test_a_backoff_doubles_with_each_attempt_up_to_an_hour() -> None:
    assert [backoff(attempts) for attempts in (1, 2, 3, 10)] == [1.0, 2.0, 4.0, 512.0]
    assert backoff(13) == backoff(10_000) == LONGEST_BACKOFF
