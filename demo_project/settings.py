"""Settings of the demo. The first line is all that scrapy-frontier needs; the rest is manners."""

from demo_project.web import LOOPBACKS, ONE_LOOPBACK

ADDONS = {"scrapy_frontier.Addon": 500}

BOT_NAME = "demo_project"
SPIDER_MODULES = ["demo_project.spiders"]
EXTENSIONS = {"demo_project.serve.DemoWeb": 500, "demo_project.progress.Progress": 500}
DEMO_PORT = 8998  # fixed: a crawl that is resumed from its JOBDIR must find the same URLs again

ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1  # seconds between two requests to a host
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DEPTH_LIMIT = 30  # links from a seed; ends the calendar that always has a next month
# Our own machine needs less care: the demo shall end within seconds.
DOWNLOAD_SLOTS = {host: {"delay": 0.2, "concurrency": 1} for host in LOOPBACKS}
DOWNLOAD_SLOTS[ONE_LOOPBACK] = {"delay": 0.03, "concurrency": 1}  # all sites, where only it exists

LOGSTATS_INTERVAL = 0  # the demo has a line of progress of its own
LOG_LEVEL = "WARNING"  # INFO is Scrapy's usual log, DEBUG a line a request
RETRY_GIVE_UP_LOG_LEVEL = "INFO"  # the summary counts what failed
TELNETCONSOLE_ENABLED = False
