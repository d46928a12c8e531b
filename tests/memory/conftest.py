"""Each test has a budget of its own."""

import pytest

from kafkasource.memory import Budget
from kafkasource.memory.limits import Limit

MIB = 1 << 20


@pytest.fixture
def budget(monkeypatch):
    """This process's budget: of a machine with room for everything."""
    made = Budget(Limit(1024 * MIB, "a test"))
    monkeypatch.setattr("kafkasource.memory.budget._budget", made)
    return made
