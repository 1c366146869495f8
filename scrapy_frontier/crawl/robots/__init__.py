"""robots.txt before pages: fetched by errands, kept for each site, and asked when a page is handed out."""
