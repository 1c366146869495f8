"""A page's end for a harness without an engine, told as Scrapy's engine tells it: by calls.

With ``--on-done signals:done`` such a harness sends three signals instead, which Scrapy sends whatever the
scheduler, and counts them as the scheduler's time.
"""


def done(scheduler, crawler, request, response):
    flights = scheduler._flights
    flights._response_downloaded(response, request)
    flights._fetched(request, response)
    flights.ended(request)
