"""How much memory a process may take for data. The first of these that is known decides:

    the option `memoryBudget`                  the budget itself
    spark.executor.pyspark.memory              half of what is not mapped yet: Spark limits the address space of each
                                               worker (RLIMIT_AS), and sets PYSPARK_EXECUTOR_MEMORY_MB to the limit
    the limit of the container (cgroup v2, v1) a quarter of it, shared equally by all Python workers of the executor;
    or else the machine's memory               the JVM has the rest

An executor runs as many tasks side by side as it has cores for. A task that reads and writes has two workers: one
reads, the other writes. Files and environment come as arguments; each process asks once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafkasource.kafka.memory.shares import MIB

PYTHONS_SHARE = 4  # Python's data gets this fraction (one in four) of the container
WORKERS_PER_TASK = 2
LEAST_DERIVED_BYTES = 16 * MIB
_UNLIMITED = 1 << 60  # cgroup v1 says "no limit" by a very large number


@dataclass(frozen=True)
class Limit:
    """The bytes that a process may take, and the origin of that number."""

    bytes: int
    source: str


def derived(
    environ: Mapping[str, str] | None = None,
    cgroup_root: Path = Path("/sys/fs/cgroup"),
    proc: Path = Path("/proc/self"),
) -> Limit:
    """The budget of a process whose user names none. Never raises: a file that cannot be read counts as missing."""
    environ = os.environ if environ is None else environ
    spark_mb = _int(environ.get("PYSPARK_EXECUTOR_MEMORY_MB"))
    if spark_mb is not None and spark_mb > 0:
        left = spark_mb * MIB - mapped_bytes(proc)
        return Limit(max(left // 2, LEAST_DERIVED_BYTES), "spark.executor.pyspark.memory")
    container = cgroup_limit(cgroup_root, proc)
    whole, source = (container, "the container's limit") if container else (_physical_bytes(), "the machine's memory")
    workers = WORKERS_PER_TASK * tasks_at_once(environ)
    return Limit(max(whole // PYTHONS_SHARE // workers, LEAST_DERIVED_BYTES), f"{source} for {workers} workers")


def tasks_at_once(environ: Mapping[str, str]) -> int:
    """Tasks that this process's executor runs side by side; without Spark as many as it may use cores.

    Spark gives a task `resource.executor.cores` where `spark.executor.cores` is set; Kubernetes sets the variable.
    """
    task = _task()
    of_spark = None if task is None else _int(task.getLocalProperty("resource.executor.cores"))
    cores = of_spark or _int(environ.get("SPARK_EXECUTOR_CORES")) or _usable_cores()
    return max(1, cores // (1 if task is None else task.cpus() or 1))


def cgroup_limit(root: Path, proc: Path) -> int | None:
    """The lowest limit of the groups that this process is in; None where there is none."""
    limits = []
    for path in _limit_files(root, proc):
        with suppress(OSError, ValueError):
            limit = int(path.read_text())  # v2 says "max" for none
            if 0 < limit < _UNLIMITED:
                limits.append(limit)
    return min(limits, default=None)


def _limit_files(root: Path, proc: Path) -> Iterator[Path]:
    """Mostly a container sees its own group as the root. Where it does not, the groups above it bound it too."""
    try:
        lines = (proc / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        hierarchy, file = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        path = Path(group)
        for one in (path, *path.parents):
            yield hierarchy / str(one).lstrip("/") / file


def mapped_bytes(proc: Path = Path("/proc/self")) -> int:
    """The address space that the process uses; 0 where that is not known."""
    with suppress(OSError, ValueError, IndexError):
        return int((proc / "statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _physical_bytes() -> int:
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 4096 * MIB


def _usable_cores() -> int:
    with suppress(OSError, AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Task(Protocol):
    """The part of pyspark's TaskContext that is used."""

    def getLocalProperty(self, key: str) -> str | None: ...

    def cpus(self) -> int: ...


def _task() -> _Task | None:
    """The Spark task that this process runs now. Only a worker has one, and it has imported pyspark already."""
    context = getattr(sys.modules.get("pyspark"), "TaskContext", None)
    task: _Task | None = None if context is None else context.get()
    return task


def _int(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
