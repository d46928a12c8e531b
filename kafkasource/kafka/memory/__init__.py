"""The memory budget of one Python process: its size, its parts, and what each part holds.

    limits        how many bytes a process may take: the user or Spark says it, else its container, else the machine
    shares        THE table of parts, and how bytes are divided among those in use (pure)
    budget        leases of parts, and what each part holds now, at most, and has lent
    blocks        Arrow's native memory, charged to a part from its allocation until nothing views it any more
    gauges        all of it as numbers: parts, Arrow's native pool, the rest of the process
    report        the gauges of each task as lines in a folder
    this_process  the budget of this process

`fetch`, `producer` and the sink take leases. A process that has a budget offers its gauges through `kafka.counters`.
"""

from kafkasource.kafka.memory.blocks import Block
from kafkasource.kafka.memory.budget import Budget, MemoryDemand, PartMemory, Trimmable
from kafkasource.kafka.memory.shares import ACCUMULATOR, DECODED, LEAST_BUDGET_BYTES, PARTS, RECEIVE
from kafkasource.kafka.memory.this_process import gauges, process_budget

__all__ = [
    "ACCUMULATOR",
    "DECODED",
    "LEAST_BUDGET_BYTES",
    "PARTS",
    "RECEIVE",
    "Block",
    "Budget",
    "MemoryDemand",
    "PartMemory",
    "Trimmable",
    "gauges",
    "process_budget",
]
