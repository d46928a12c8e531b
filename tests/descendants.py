"""The processes that descend from one, as /proc shows them."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from pathlib import Path


def descendants(root: int) -> dict[int, bytes]:
    """Command lines by process id."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children[int(stat.read_text().rpartition(")")[2].split()[1])].append(int(stat.parent.name))
    found, waiting = {}, [root]
    while waiting:
        for pid in children[waiting.pop()]:
            waiting.append(pid)
            with contextlib.suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
    return found
