"""What runs beside a crawl."""
