"""The budget of this process, and its memory as numbers."""

from __future__ import annotations

import logging
import os

from kafkasource.kafka import counters
from kafkasource.kafka.memory.budget import Budget
from kafkasource.kafka.memory.gauges import gauges_of
from kafkasource.kafka.memory.limits import derived
from kafkasource.kafka.memory.report import LOG_FOLDER, reporter
from kafkasource.kafka.process import PerProcess

log = logging.getLogger("kafkasource.memory")


def process_budget() -> Budget:
    """This process's budget, made on first use: in a task, where Spark says how many tasks run side by side."""
    return _budget.get()


def gauges() -> dict[str, int]:
    """The memory of this process in bytes, by the names of `kafka.memory.gauges`."""
    return gauges_of(process_budget())


def _made() -> Budget:
    budget = Budget(derived())
    log.debug("memory budget: %d bytes, from %s", budget.total_bytes, budget.limit.source)
    folder = os.environ.get(LOG_FOLDER)
    if folder:
        budget.on_idle = reporter(budget, folder)
    counters.poll_always(_as_metrics)
    return budget


def _as_metrics() -> counters.Polled:
    """`gauges` as metrics that have the part as a label: `decoded_peak_bytes` is `kafkasource_memory_peak_bytes`."""
    for name, size in gauges().items():
        part, kind = name.removesuffix("_bytes"), ""
        for suffix in ("_limit", "_peak"):
            if part.endswith(suffix):
                part, kind = part.removesuffix(suffix), suffix
        yield f"kafkasource_memory{'_limit' if part == 'budget' else kind}_bytes", (part,), size


_budget = PerProcess(_made, renew=Budget.after_fork)
