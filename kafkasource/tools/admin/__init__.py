"""Questions of operators about a cluster, for the command line and the page of `pykafka ui`.

topics        topics, their health, the ends of their logs
groups, lag   consumer groups, and how far they have read
positions     places in logs, as people write them
json_records  records that people write as JSON
replay        dead letters that go back to their topics: dead_letters, destinations

A newcomer starts with `topics`. It imports no `cli`, `ui` or `web`.
"""
