"""The links of a page: what its callback yields or follows in bulk, and what the link graph is told."""
