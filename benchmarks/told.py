"""For a harness without an engine, which has links from elsewhere: a page's end by calls, and links in bulk.

`done`: with ``--on-done signals:done`` such a harness sends three signals, which Scrapy sends whatever the
scheduler, and counts them as the scheduler's time; Scrapy's engine tells the frontier by calls.

``--driver told:Bulk``: a page's links are handed over as a followed page hands them over, without requests.
"""

import json
import time
from types import SimpleNamespace

from drivers import ApiDriver  # of the harness

from scrapy_frontier.core.frontier import Link

TEXT = "\ufdd0"  # stands for the text of an anchor in the payload all links share
quote = json.encoder.encode_basestring


def done(scheduler, crawler, request, response):
    watch = scheduler._crawl.watch
    watch._flights.response_downloaded(response, request)
    watch._fetched(request, response)
    watch._ended(request)


class FrontierSpiderMiddleware:
    """By its name the scheduler knows that links are followed."""


class Bulk(ApiDriver):
    def open(self):
        self.crawler.engine.scraper.spidermw = SimpleNamespace(middlewares=[FrontierSpiderMiddleware()])
        super().open()
        crawl = self.scheduler._crawl
        self.flights, self.intake, self.of_link = crawl.flights, crawl.intake, crawl.requests.codec.of_link
        self.shared = self.make("http://example.com/", 0, TEXT, 1, "http://example.com/")

    def page_done(self, request, page_url, links):
        begin = time.perf_counter_ns()
        intake, lease = self.intake, self.flights[id(request)].lease
        tally, recognize = self.scheduler._tally, intake.recognize
        before = tally["scheduler/enqueued/disk"]
        meta = self.shared.meta | {"depth": request.meta.get("depth", 0) + 1}
        shared, text = self.of_link(self.shared.callback, None, page_url, meta), quote(TEXT).encode()
        new, met = [], set()
        for url, priority, words in links:
            if url in met or recognize(url, lease):
                continue
            met.add(url)
            clean = intake.without_session(url)
            fingerprint, host = intake.identify(clean)
            payload = shared.replace(text, quote(words).encode())
            new.append(Link(fingerprint, clean, host, priority, payload, text=url))
        if new:
            intake.enqueue_links(new, lease)
        self.clock.enqueue += time.perf_counter_ns() - begin
        return tally["scheduler/enqueued/disk"] - before
