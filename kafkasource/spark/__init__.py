"""PySpark itself: what its releases differ in, and the Python processes that it starts.

releases    pyspark's data source classes, with stand-ins for what an older release lacks
workers     the interpreter of Spark's Python processes, and what they find
tracebacks  errors that reach Spark's user as their text alone
logs        what the loggers of these processes show, and where

It imports `errors` and `kafka.process`. A newcomer starts with `releases`.
"""
