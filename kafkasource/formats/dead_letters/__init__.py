"""Dead letters: what `badRecords=topic:NAME` writes in place of a record or row that cannot be used.

makers   the three reasons for a dead letter, and the rows for its topic
headers  the headers in which a dead letter says where it comes from, and why

To learn why a row became a dead letter, start with `makers`. `sink.columns` calls it for rows, and
`kafka.producer.unwritable` for records.
"""
