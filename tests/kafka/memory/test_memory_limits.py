"""How much a process may take, by what its surroundings say of it."""

import types

import pytest

from kafkasource.kafka.memory import limits
from kafkasource.kafka.memory.limits import cgroup_limit, derived, tasks_at_once

MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def system(tmp_path):
    """A /proc/self and a /sys/fs/cgroup to be filled."""

    class System:
        root, proc = tmp_path / "cgroup", tmp_path / "proc"

        def group(self, text):
            (self.proc / "cgroup").write_text(text)

        def limit(self, path, text):
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

        def found(self):
            return cgroup_limit(self.root, self.proc)

        def derived(self, **environ):
            return derived(environ, self.root, self.proc)

    made = System()
    made.root.mkdir()
    made.proc.mkdir()
    return made


@pytest.fixture(autouse=True)
def no_task(monkeypatch):
    monkeypatch.setattr(limits, "_task", lambda: None)


def test_a_container_of_cgroup_v2_tells_its_limit(system):
    system.group("0::/\n")
    system.limit("memory.max", f"{2 * GIB}\n")
    assert system.found() == 2 * GIB


def test_of_nested_groups_the_lowest_limit_counts(system):
    system.group("0::/kubepods/pod1/c1\n")
    system.limit("kubepods/pod1/c1/memory.max", "max\n")
    system.limit("kubepods/pod1/memory.max", f"{3 * GIB}\n")
    system.limit("kubepods/memory.max", f"{64 * GIB}\n")
    assert system.found() == 3 * GIB


def test_a_container_of_cgroup_v1_tells_its_limit(system):
    system.group("5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n")
    system.limit("memory/memory.limit_in_bytes", f"{GIB}\n")  # its own group is what it sees as the root
    assert system.found() == GIB


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", "", "what\n"])
def test_no_limit_is_none(system, text):
    system.group("4:memory:/\n0::/\n")
    system.limit("memory.max", text)
    system.limit("memory/memory.limit_in_bytes", text)
    assert system.found() is None


def test_where_there_are_no_groups_there_is_no_limit(system):
    assert system.found() is None


@pytest.mark.parametrize(("cores", "mib"), [(1, 512), (4, 128), (16, 32), (64, 16)])
def test_the_workers_of_an_executor_share_a_quarter_of_its_container(system, cores, mib):
    """Each task may have one that reads and one that writes; less than 16 MiB is none."""
    system.group("0::/\n")
    system.limit("memory.max", f"{4 * GIB}\n")
    assert system.derived(SPARK_EXECUTOR_CORES=str(cores)).bytes == mib * MIB


def test_spark_s_own_limit_of_a_worker_goes_before_the_container_s(system, monkeypatch):
    system.group("0::/\n")
    system.limit("memory.max", f"{4 * GIB}\n")
    monkeypatch.setattr(limits, "mapped_bytes", lambda proc: 600 * MIB)
    assert system.derived(PYSPARK_EXECUTOR_MEMORY_MB="1000").bytes == 200 * MIB  # half of what is left
    assert system.derived(PYSPARK_EXECUTOR_MEMORY_MB="610").bytes == 16 * MIB
    assert system.derived(PYSPARK_EXECUTOR_MEMORY_MB="-1", SPARK_EXECUTOR_CORES="4").bytes == 128 * MIB


def test_without_any_limit_the_machine_is_shared(system, monkeypatch):
    monkeypatch.setattr(limits, "_physical_bytes", lambda: 32 * GIB)
    found = system.derived(SPARK_EXECUTOR_CORES="8")
    assert found.bytes == 512 * MIB
    assert "machine" in found.source


def test_spark_tells_a_task_how_many_run_beside_it(monkeypatch):
    task = types.SimpleNamespace(getLocalProperty={"resource.executor.cores": "12"}.get, cpus=lambda: 3)
    monkeypatch.setattr(limits, "_task", lambda: task)
    assert tasks_at_once({"SPARK_EXECUTOR_CORES": "2"}) == 4
    monkeypatch.setattr(
        limits, "_task", lambda: types.SimpleNamespace(getLocalProperty=lambda name: None, cpus=lambda: 1)
    )
    assert tasks_at_once({"SPARK_EXECUTOR_CORES": "2"}) == 2
    monkeypatch.setattr(limits, "_usable_cores", lambda: 6)
    assert tasks_at_once({}) == 6


def test_this_process_has_a_budget_whatever_the_system():
    assert derived().bytes >= 16 * MIB
