"""The reading side of the data source: it plans micro-batches and turns offsets into Spark's rows.

plan     which offsets a micro-batch reads: subscriptions, limits, checkpoints, lost data
spark    what Spark calls: streams, batches, partitions, schemas, filters
commits  offsets committed to a consumer group, for lag monitors

A newcomer starts with `spark.stream`, then `plan.planner`. Fetching is `kafka.fetch`.
"""
