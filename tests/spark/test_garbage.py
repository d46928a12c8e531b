"""What is done for Spark's worker processes, and not done in anybody else's."""

import gc
import sys
from types import SimpleNamespace

import pytest

from kafkasource.spark import garbage


@pytest.fixture
def freezes(monkeypatch):
    calls = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(len(sys.modules)))
    monkeypatch.setattr(garbage, "_frozen_at", 0)
    return calls


def become(monkeypatch, program):
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=program)))


def test_a_users_own_process_keeps_its_garbage_collector_as_it_is(freezes, monkeypatch):
    garbage.spare_imports_from_gc()
    become(monkeypatch, "pytest.__main__")
    garbage.spare_imports_from_gc()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())
    garbage.spare_imports_from_gc()
    assert freezes == []


def test_a_worker_spares_its_imports_once_and_again_after_more_imports(freezes, monkeypatch):
    become(monkeypatch, "pyspark.daemon")
    garbage.spare_imports_from_gc()
    garbage.spare_imports_from_gc()
    assert len(freezes) == 1
    monkeypatch.setitem(sys.modules, "imported_later", SimpleNamespace())
    garbage.spare_imports_from_gc()
    assert len(freezes) == 2
