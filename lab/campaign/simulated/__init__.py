"""`make simulate`: faults inside one process, on the tests' scripted clusters: many thousands a minute, drawn by seeds.

They count apart from those on real brokers: a cluster of the tests answers as brokers were seen to, and no more.
"""
