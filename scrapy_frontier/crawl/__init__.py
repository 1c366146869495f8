"""What makes a Scrapy crawl over the frontier's verbs: how it is put together, what its scheduler does."""
