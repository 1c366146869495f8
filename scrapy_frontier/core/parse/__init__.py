"""What sites say, read: URLs, headers, HTML heads, robots.txt, sitemaps. Text in, plain values out."""
