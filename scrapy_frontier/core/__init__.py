"""The frontier: a library without Scrapy, event loop or clock. Times are arguments, in POSIX seconds."""
