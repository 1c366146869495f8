"""What is on disk: every key, one file a family of rows, one batch; all of LevelDB is in `leveldb`."""
