"""Decides what becomes of a page: discovery, queues, leases, budgets, traps, scores, revisits, edits."""
