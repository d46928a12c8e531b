"""Streams over ten thousand partitions and more, of which few are busy: see `__main__`."""
