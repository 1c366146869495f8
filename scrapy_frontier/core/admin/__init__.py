"""Facts about a store, and mending it; nothing here prints."""
