"""The frontier's directory of a crawl: which one it is, how it is opened, and what its files need."""
