"""Between engine and downloader: one file a concern."""
