"""The folder through which counts leave a Python worker: one file for each process of a host. A collector adds them up.

Spark's workers end after at most a minute without work, and their files stay. When a process has ended, the next
collector adds its file to `folded.json` and deletes the file. That loses nothing and counts nothing twice, even when
the collector is killed: `folded.json` is replaced as a whole and names its processes, and a collector ignores the
files of processes that it names.

    <process>.json   its newest snapshot, replaced as a whole, at most a second old while it works
    <process>.lock   locked while the process lives: the operating system releases it, however the process ends
                     a process whose lock was deleted makes it again
    <process>.report a snapshot from another host, which arrived with a task's report (`take`)
    folded.json      the counters of ended processes, with their names
    collect.lock     only one collector works at a time

The folder is `KAFKASOURCE_METRICS_DIR` in the environment. Without that, after `serve_metrics`, it is a folder among
Spark's temporary files (`SPARK_LOCAL_DIRS`, which Spark gives to each Python process that it starts); Spark deletes it
when the application ends. A process without a folder publishes nothing, and looks again a second later.

Only the owner can use the folder (mode 0700). A process refuses a folder that is a link, that belongs to another user,
or that others may write to, and it follows no links in it: in /var/tmp any user can create a folder before us.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from kafkasource.kafka.process import PerProcess
from kafkasource.metrics.snapshot import Snapshot, added

log = logging.getLogger("kafkasource.metrics")

ENVIRONMENT = "KAFKASOURCE_METRICS_DIR"
IN_LOCAL_DIR = "kafkasource-metrics"

_REPORTED_GAUGES_S = 120.0  # older gauges of another host do not count
_DEAD_AFTER_S = 24 * 3600.0  # a process of another host that reports no more: Spark ends idle workers after a minute
_MOST_NAMES = 50_000  # of dead processes, in folded.json

_named: Path | None = None  # set by `use`


def wanted() -> Path | None:
    """The folder that this process publishes to; None: no metrics are wanted."""
    if _named is not None:
        return _named
    path = os.environ.get(ENVIRONMENT)
    if path:
        return Path(path)
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if local and os.path.isdir(in_local_dir := os.path.join(local, IN_LOCAL_DIR)):
        return Path(in_local_dir)
    return None


def use(folder: Path | None) -> None:
    """Publish to this folder, whatever the environment says. For the process that serves metrics, and for tests."""
    global _named
    _named = folder


# Publishing.


class _LifeLock:
    """The lock on a file shows that this process lives. A forked child closes its copy of the descriptor.

    Otherwise the lock would outlive the parent.
    """

    def __init__(self) -> None:
        self._held: tuple[Path, str, int] | None = None  # folder, process and descriptor

    def hold(self, folder: Path, process: str) -> None:
        path = folder / f"{process}.lock"
        if self._held is not None and self._held[:2] == (folder, process):
            _check(folder)
            if _is_at(self._held[2], path):
                os.utime(self._held[2])  # what cleans temporary files goes by a file's age
                return
        self.release()
        make(folder)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._held = folder, process, descriptor

    def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            os.close(held[2])


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


_life_lock = PerProcess(_LifeLock, renew=_LifeLock.release)


def publish(snapshot: Snapshot) -> None:
    """Replace this process's file. Raises OSError, and PermissionError if other users can use the folder."""
    folder = wanted()
    if folder is None:
        return
    _life_lock.get().hold(folder, snapshot.process)
    _replace(folder / f"{snapshot.process}.json", snapshot.to_json())


def take(snapshots: Iterable[Snapshot | None]) -> None:
    """Keep the snapshots from tasks' reports. On the driver; a folder that the processes share has them already."""
    folder = wanted()
    if folder is None:
        return
    newest: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        if snapshot is not None:
            _keep_newer(newest, snapshot)
    for process, snapshot in newest.items():
        if (folder / f"{process}.lock").exists():
            continue
        with suppress(OSError):
            make(folder)
            path = folder / f"{process}.report"
            known = _read(path) if path.exists() else None
            if known is None or snapshot.sequence > known.sequence:
                _replace(path, snapshot.to_json())


def _keep_newer(newest: dict[str, Snapshot], snapshot: Snapshot) -> None:
    known = newest.get(snapshot.process)
    if known is None or snapshot.sequence > known.sequence:
        newest[snapshot.process] = snapshot


def make(folder: Path) -> None:
    """Make the folder, or check that an existing one is ours alone. Raises PermissionError if it is not.

    It does not make the parents: if Spark has ended and deleted them, nothing may stay behind.
    """
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    _check(folder)


def _check(folder: Path) -> None:
    wrong = _fault_of(folder)
    if wrong:
        raise PermissionError(
            f"{folder} {wrong}, so no metrics are written to it or read from it. Name a folder that belongs to this "
            f"user in {ENVIRONMENT}, e.g. /var/tmp/kafkasource-{os.geteuid()}; the workers create it if it does not "
            "exist"
        )


def _fault_of(folder: Path) -> str | None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except PermissionError:
        return f"is not readable for user {os.geteuid()}"
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return "is a link, or no folder"
        raise
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, and this process runs as user {os.geteuid()}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written to by others (mode {stat.S_IMODE(status.st_mode):04o}; chmod 700 it when it is empty)"
    return None


def _replace(path: Path, text: str) -> None:
    """Replace the file as a whole: a reader sees the old text or the new text."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    with suppress(FileNotFoundError):
        new.unlink()  # left by a process that had our id
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)
    os.replace(new, path)


def _read_bytes(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return file.read()


# Collecting.


def collect(folder: Path) -> Snapshot:
    """The sum over all processes that ever published here; gauges only of processes that live. Folds dead processes.

    Blocks while another process collects. Raises OSError if the folder cannot be used at all.
    """
    make(folder)
    with _alone(folder):
        folded, names = _read_folded(folder)
        newest: dict[str, Snapshot] = {}
        dead: set[str] = set()
        for path in sorted(folder.iterdir()):
            process = path.stem
            if path.suffix not in (".json", ".report") or path.name == "folded.json" or process in names:
                continue
            gauges_age_s, is_dead = _standing(folder, path)  # first: a process that is dead now writes no more
            snapshot = _read(path)
            if snapshot is None or snapshot.process != process:
                continue
            if is_dead:
                dead.add(process)
            if gauges_age_s > _REPORTED_GAUGES_S:
                snapshot = replace(snapshot, gauges={})
            _keep_newer(newest, snapshot)
        total = added([folded, *newest.values()])
        try:
            if dead:
                _fold(folder, folded, names, {process: newest[process] for process in sorted(dead)})
            _tidy(folder, names)
            _cannot_fold.discard(folder)
        except OSError as error:  # a full disk: no count is lost, and the total is right
            level = logging.DEBUG if folder in _cannot_fold else logging.WARNING
            log.log(level, "%s: the files of ended processes stay, as their sums cannot be written: %s", folder, error)
            _cannot_fold.add(folder)
    return total


_cannot_fold: set[Path] = set()  # a warning said so


def _fold(folder: Path, folded: Snapshot, names: dict[str, None], dead: Mapping[str, Snapshot]) -> None:
    """Add the counts of dead processes to `folded.json`, and then their names to `names`."""
    of = list(names | dict.fromkeys(dead))[-_MOST_NAMES:]
    sums = added([folded, *dead.values()])
    _replace(folder / "folded.json", json.dumps({"of": of, "sums": sums.to_json()}))
    names.update(dict.fromkeys(dead))


def _standing(folder: Path, path: Path) -> tuple[float, bool]:
    """The age of the file's gauges in seconds, and whether its process is dead.

    Without a lock the file's age decides. Then the process is on another host, or somebody has deleted its lock, which
    the process makes again when it publishes next. What it counts after it was folded too early does not count.
    """
    if not (folder / f"{path.stem}.lock").exists():
        age_s = time.time() - path.stat().st_mtime
        return age_s, age_s > _DEAD_AFTER_S
    return (0.0, False) if _lives(folder, path.stem) else (float("inf"), True)


def _tidy(folder: Path, names: Collection[str]) -> None:
    """Delete folded files, and the locks and unfinished files of killed processes."""
    for path in folder.iterdir():
        process = path.name.split(".")[0]
        with suppress(OSError):
            left = path.suffix in (".lock", ".new") and path.stat().st_mtime < time.time() - 60
            orphan = path.suffix == ".lock" and not (folder / f"{process}.json").exists()
            if path.name in ("folded.json", "collect.lock"):
                continue
            if process in names or (left and (path.suffix == ".new" or (orphan and not _lives(folder, process)))):
                path.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / "collect.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lives(folder: Path, process: str) -> bool:
    try:
        descriptor = os.open(folder / f"{process}.lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(path: Path) -> Snapshot | None:
    try:
        return Snapshot.from_json(_read_bytes(path))
    except (OSError, ValueError) as error:
        log.debug("%s: %s", path, error)
        return None


def _read_folded(folder: Path) -> tuple[Snapshot, dict[str, None]]:
    """The counts of dead processes, and their names in the order in which they were folded."""
    try:
        document = json.loads(_read_bytes(folder / "folded.json"))
        return Snapshot.from_json(document["sums"]), dict.fromkeys(document["of"])
    except FileNotFoundError:
        return Snapshot(""), {}
    except (ValueError, KeyError, TypeError) as error:
        log.warning("cannot read %s, so the counts of ended processes are lost: %s", folder / "folded.json", error)
        return Snapshot(""), {}
