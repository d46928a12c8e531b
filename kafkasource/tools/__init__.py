"""The tools beside a job: the command line and the pages.

cli      the command `pykafka`: a module for each command
ui       the page of `pykafka ui`
monitor  the page and the metrics of a Spark session (`serve_metrics`)
admin    questions of operators about a cluster, for `cli` and `ui`
web      the HTTP server of `ui` and `monitor`

It may import every other room. No code that reads or writes imports it. A newcomer starts with `cli`.
"""
