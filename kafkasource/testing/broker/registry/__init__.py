"""A real schema registry, beside the brokers."""
