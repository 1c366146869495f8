"""Where Scrapy looks for spiders."""
