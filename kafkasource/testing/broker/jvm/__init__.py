"""Java and the jars that brokers and the schema registry are."""
