"""A real Kafka and a schema registry for tests, and the demo.

broker    starts them: `Broker` and `Registry`
fixtures  the pytest plugin
demo      `pykafka demo`

It imports the client (`kafka`) and `metrics`; only `tools` imports it. A newcomer starts with `broker.cluster`.
"""
