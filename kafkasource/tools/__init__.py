"""The tools beside a job: the command line and the pages.

cli      the command `pykafka`: a module for each command
ui       the pages of `pykafka ui`        monitor   the page and the metrics of a Spark session (`serve_metrics`)
admin    what operators ask about a cluster, for `cli` and `ui`
web      the HTTP server that `ui` and `monitor` share

Nothing that reads or writes imports it.
"""
