"""One task's part in exactly once."""
