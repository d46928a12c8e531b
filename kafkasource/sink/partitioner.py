"""Makes the partitioner that the option `partitioner` names."""

from __future__ import annotations

from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.options import user_functions


def partitioner_of(named: str, batch_bytes: int) -> Partitioner:
    """Make it on the executor. Raises OptionError if the user's function cannot be loaded."""
    if named in ("murmur2", "murmur2_round_robin"):
        return Partitioner(batch_bytes, in_turn=named == "murmur2_round_robin")
    return Partitioner(batch_bytes, function=user_functions.load(named, "partitioner"))
