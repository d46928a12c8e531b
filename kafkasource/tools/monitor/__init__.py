"""Serves a session's metrics over HTTP: `kafkasource.serve_metrics`. Runs on the driver, in the user's process.

served      what serve_metrics returns      endpoint   HTTP: the page, JSON, Prometheus' text
log_times   from offsets to seconds         queries    the state of queries, from their progress
listener    Spark's progress events         open_sinks open transactions of exactly-once sinks

`pykafka metrics` uses `endpoint` where there is no pyspark, so nothing is imported here.
"""
