"""Each test has a budget of its own."""

import pytest

from kafkasource.kafka.memory import Budget
from kafkasource.kafka.memory.limits import Limit
from kafkasource.kafka.process import PerProcess

MIB = 1 << 20


@pytest.fixture
def budget(monkeypatch):
    """This process's budget: of a machine with room for everything."""
    made = Budget(Limit(1024 * MIB, "a test"))
    of_process = PerProcess(lambda: made, renew=Budget.after_fork)
    of_process.get()
    monkeypatch.setattr("kafkasource.kafka.memory.this_process._budget", of_process)
    return made
