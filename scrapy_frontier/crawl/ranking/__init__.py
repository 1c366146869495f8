"""Which scorer a crawl has, and the thread in which it ranks."""
