"""A mirror and an exactly-once query at a steady rate for hours, every process sampled: does anything grow?

`make soak HOURS=2`. Samples, plot and judgement are in build/soak (or FOLDER). Ctrl-C and SIGTERM end what it started,
and judge what was measured. Exit code 1: a leak, a record that is lost or doubled, or something that ended.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from lab.benchmarks.soak import report
from lab.benchmarks.soak.load import Load
from lab.benchmarks.soak.report import SAMPLES, Records
from lab.benchmarks.soak.sampler import Sampler
from lab.benchmarks.soak.slopes import WARM_UP_S
from lab.campaign.ending import on_sigterm_unwind

RATE = 5_000
TRIGGER_S = 2.0
INTERVAL_S = 10.0
DRAIN_S = 180.0
SAY_EVERY_S = 600.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="(2)")
    parser.add_argument("--rate", type=int, default=RATE, help=f"records a second ({RATE})")
    parser.add_argument("--trigger", type=float, default=TRIGGER_S, help=f"seconds of a micro-batch ({TRIGGER_S:g})")
    parser.add_argument("--every", type=float, default=INTERVAL_S, help=f"seconds between samples ({INTERVAL_S:g})")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help=f"seconds not judged ({WARM_UP_S:g})")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="(build/soak)")
    parser.add_argument("--judge", action="store_true", help="only judge the samples that are in the folder")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.judge:
        return report.write(arguments.folder, None, None, arguments.warm_up)
    (arguments.folder / SAMPLES).write_text("")
    on_sigterm_unwind()
    records, failure = None, None
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as home:
        load = Load(Path(home), arguments.folder, arguments.rate, arguments.trigger)
        try:
            with load:
                sampler = Sampler(load.apps, load.totals, arguments.folder / SAMPLES, arguments.every)
                sampler.start()
                drained = False
                try:
                    failure = _watch(load, arguments.hours * 3600)
                    load.drain(DRAIN_S)
                    drained, failure = True, failure or load.failure()
                finally:
                    sampler.stop()
                    copies = {name: each.counts for name, each in load.followers.items()}
                    records = Records(load.traffic.written, copies, drained)
        except (KeyboardInterrupt, SystemExit):  # SIGTERM
            print("ended early", flush=True)
    return report.write(arguments.folder, records, failure, arguments.warm_up)


def _watch(load: Load, seconds: float) -> str | None:
    """Until the time is over or something has ended, which it names."""
    began_s = said_s = time.monotonic()
    while (now_s := time.monotonic()) - began_s < seconds:
        if (failure := load.failure()) is not None:
            return failure
        if now_s - said_s >= SAY_EVERY_S:
            said_s = now_s
            print(f"{(now_s - began_s) / 60:.0f} minutes: {load.totals()}", flush=True)
        time.sleep(1)
    return None


if __name__ == "__main__":
    sys.exit(main())
