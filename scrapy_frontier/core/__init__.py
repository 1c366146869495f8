"""The frontier: no Scrapy, no event loop, no clock. Times are arguments, in POSIX seconds."""
