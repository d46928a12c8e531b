"""Asks a cluster, with routing, retries and a deadline for each call.

`cluster.Cluster` is the door; `caller` makes the calls.

routing    which broker a request goes to     cache        the clusters that a process keeps for its next tasks
visit      one conversation with one broker   permissions  what the user may do
topics, offsets, groups, transactions, log_dirs: a part for each subject
"""
