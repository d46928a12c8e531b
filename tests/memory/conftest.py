"""The fakes of source, sink and fan-out serve here too; each test has a budget of its own."""

import sys
from pathlib import Path

import pytest

from kafkasource.memory import Budget
from kafkasource.memory.limits import Limit

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS / folder) for folder in ("source", "sink", "client", "records")]
MIB = 1 << 20


@pytest.fixture
def budget(monkeypatch):
    """This process's budget: of a machine with room for everything."""
    made = Budget(Limit(1024 * MIB, "a test"))
    monkeypatch.setattr("kafkasource.memory.budget._budget", made)
    return made
