"""A real Kafka and a schema registry for tests, and the demo. `broker` starts them; `fixtures` is the pytest plugin."""
