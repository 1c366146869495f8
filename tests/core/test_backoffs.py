"""How long a page waits after an attempt that failed."""

from scrapy_frontier.core.pages.backoffs import LONGEST_BACKOFF, backoff


def test_a_backoff_doubles_with_each_attempt_up_to_an_hour() -> None:
    assert [backoff(1.0, attempts) for attempts in (1, 2, 3, 10)] == [1.0, 2.0, 4.0, 512.0]
    assert backoff(1.0, 13) == backoff(1.0, 10_000) == LONGEST_BACKOFF


def test_a_first_backoff_of_more_than_an_hour_is_kept_and_none_stays_none() -> None:
    assert backoff(7200.0, 1) == backoff(7200.0, 5) == 7200.0
    assert backoff(0.0, 9) == 0.0
