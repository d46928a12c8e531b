"""Goodput over long, thin and lossy lines: see `__main__`."""
