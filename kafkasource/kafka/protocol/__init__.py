"""Kafka's messages as data, and their bytes. `messages` has a table for each; `apis` lists them."""
