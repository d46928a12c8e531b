"""The writing side of the data source: Spark's rows to records, through one or many producers.

writer    what Spark calls        task       one task: rows in, a report out
columns   rows, checked, as Arrow columns    clusters   several clusters from one write

A newcomer starts with `writer`, then `task`. Sending is `kafka.producer`; transactions are `exactly_once`.
"""
