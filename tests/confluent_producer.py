"""A producer of confluent-kafka whose records lie in each partition in the order in which it was given them."""

from confluent_kafka import Producer


def ordered_producer(bootstrap_servers, **settings):
    """Idempotent: else a first record whose broker has not heard of the new topic is sent again, behind later ones."""
    silent = {"log_level": 0}  # it may outlive its broker, and would say so each second between the tests' dots
    return Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, **silent, **settings})
