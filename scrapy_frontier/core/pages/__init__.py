"""What becomes of a page: known, leased, waiting, deferred, trapped, rescored, visited again."""
