"""A Scrapy crawl over the frontier's verbs: requests in and under way, links out, robots.txt before pages."""
