"""Requests as such: which page one is for, and how it is written down and read back."""
