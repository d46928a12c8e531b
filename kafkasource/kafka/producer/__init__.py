"""Sends Arrow columns of records: `producer.Producer` encodes rows into batches, a sender thread sends them."""
