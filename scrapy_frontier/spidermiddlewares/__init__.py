"""Spider middlewares, one file a concern."""
