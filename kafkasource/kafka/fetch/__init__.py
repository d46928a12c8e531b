"""Reads planned ranges of offsets: `task` runs in an executor, `fetcher` asks brokers, `partition` follows one log."""
