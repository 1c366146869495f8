"""What shows a crawl: the dashboard, its state and metrics, and the page of a report."""
