"""The demo: ``scrapy crawl demo`` crawls a small web on loopback, ``-a seeds=URL`` the real one."""
