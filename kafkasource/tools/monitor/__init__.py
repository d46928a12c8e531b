"""Serves a session's metrics over HTTP: `kafkasource.serve_metrics`. Runs on the driver, in the user's process.

served      the object that serve_metrics returns
endpoint    HTTP: the page, JSON, Prometheus' text
listener    Spark's progress events
queries     the state of queries, from their progress
log_times   from offsets to seconds
open_sinks  open transactions of exactly-once sinks

This file imports nothing, because `pykafka metrics` uses `endpoint` without pyspark.
"""
