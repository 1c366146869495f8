"""Reads, checks, exports and repairs a stopped store; prints nothing."""
