"""The memory of one Python process as a budget: how much there is, which parts it is divided into, who holds what.

    limits    how many bytes a process may take: what the user or Spark says, else its container, else the machine
    shares    THE table of parts, and how bytes are divided among those in use (pure)
    budget    the process's budget: leases of parts, what each part holds and held at most, what is lent
    blocks    Arrow's native memory that a part is charged with for as long as anybody views it
    gauges    all of it as numbers: parts, Arrow's native pool, what else the process has

A leaf: it imports nothing of the package. `source` and `sink` take leases; metrics read `gauges()`.
"""

from kafkasource.memory.blocks import Block
from kafkasource.memory.budget import Budget, Keeper, Trimmable, Wish, process_budget
from kafkasource.memory.gauges import gauges
from kafkasource.memory.shares import ACCUMULATOR, DECODED, FAN_OUT, LEAST_BUDGET_BYTES, PARTS, RECEIVE

__all__ = [
    "ACCUMULATOR",
    "DECODED",
    "FAN_OUT",
    "LEAST_BUDGET_BYTES",
    "PARTS",
    "RECEIVE",
    "Block",
    "Budget",
    "Keeper",
    "Trimmable",
    "Wish",
    "gauges",
    "process_budget",
]
