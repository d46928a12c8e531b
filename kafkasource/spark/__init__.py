"""PySpark itself: its releases, and the Python processes that it starts.

The modules:

releases    pyspark's data source classes, with stand-ins for an older release
launcher    starts Spark on this machine for a command of ours
workers     the interpreter of Spark's Python processes, and its packages
daemon      PySpark's daemon with our modules already in it, a setting of Spark
garbage     spares workers a long garbage collection
tracebacks  errors that reach Spark's user as their text alone
logs        the levels and the format of our log lines in these processes

It imports `errors` and `kafka.process`. A newcomer starts with `releases`.
"""
