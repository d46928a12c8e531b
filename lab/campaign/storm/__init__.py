"""`make storm`: many faults a second without Spark. Single connections of our clients are harmed, each at a request.

`connections` is the proxy that does it, `faults` the table, `storm` a run from its brokers to its report; the programs
`*_app` are short-lived clients of all kinds, and what stands for Spark.
"""
