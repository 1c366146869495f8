"""Reads and writes the database: keys, rows, batches, LevelDB."""
