"""A crawl of several processes: shards, their log in PostgreSQL, and which process owns which shard."""
