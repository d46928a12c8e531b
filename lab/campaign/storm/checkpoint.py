"""A query's checkpoint as Spark keeps it, as far as a storm needs it: planned batches, and those that are done.

    metadata      {"id": ...}, of the query
    offsets/7     before batch 7 runs: where it ends. Its third line is the source's offset
    commits/7     after it

A file appears whole or not at all. A batch that is planned and not done is run again after a restart.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from lab.campaign.whole_files import write_whole


class Checkpoint:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._offsets, self._commits = folder / "offsets", folder / "commits"
        for each in (self._offsets, self._commits):
            each.mkdir(parents=True, exist_ok=True)
        if not (folder / "metadata").exists():
            write_whole(folder / "metadata", json.dumps({"id": str(uuid.uuid4())}))
        self.query_id: str = json.loads((folder / "metadata").read_text())["id"]

    def planned(self) -> int:
        """The number of the last batch that was planned. -1: none."""
        return _last(self._offsets)

    def done(self) -> int:
        """The number of the last batch that is done. -1: none."""
        return _last(self._commits)

    def end_of(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._offsets / str(number)).read_text().splitlines()[2])
        return found

    def plan(self, number: int, end: dict[str, Any]) -> None:
        write_whole(self._offsets / str(number), f"v1\n{{}}\n{json.dumps(end)}")

    def finish(self, number: int) -> None:
        (self.folder / f"{number}.newer").unlink(missing_ok=True)
        write_whole(self._commits / str(number), "v1\n{}")

    def may_roll_back(self) -> bool:
        """Is its last batch done?"""
        return self.planned() == self.done() >= 0

    def roll_back(self, planned: bool) -> bool:
        """Forget that the last batch is done; unless `planned`, also that it was planned. False: there is none.

        `restore` brings back what was forgotten.
        """
        if not self.may_roll_back():
            return False
        number = self.done()
        if not planned:
            (self._offsets / str(number)).replace(self.folder / f"{number}.newer")
        (self._commits / str(number)).unlink()
        return True

    def restore(self) -> None:
        """The newer copy of a checkpoint that was refused as too old."""
        for file in self.folder.glob("*.newer"):
            number = int(file.stem)
            file.replace(self._offsets / str(number))
            self.finish(number)


def _last(folder: Path) -> int:
    return max((int(file.name) for file in folder.glob("[0-9]*")), default=-1)
