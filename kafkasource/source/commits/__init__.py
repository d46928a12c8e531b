"""Offsets of a query, committed to a consumer group. Only the process that plans a stream does it."""
