r"""The page of `/metrics`: Prometheus' text format, version 0.0.4, which every Prometheus and every agent reads.

    # HELP name help          in help, \ and a line feed are escaped
    # TYPE name counter       counter, gauge or histogram
    name{label="value"} 1.0   in a label's value, \ and a line feed and " are escaped

The lines of a metric stand together. tests/metrics compare this with what prometheus-client writes of the same counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kafkasource.metrics.snapshot import Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_OF_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_OF_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def text(snapshot: Snapshot) -> bytes:
    """The metrics that have a value, in the order of the table."""
    return "".join(f"{line}\n" for line in _lines(snapshot)).encode(errors="replace")


def _lines(snapshot: Snapshot) -> Iterator[str]:
    for metric, samples in snapshot.samples():
        yield f"# HELP {metric.name} {metric.help.translate(_OF_HELP)}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for suffix, labels, value in samples:
            shown = ",".join(f'{label}="{text.translate(_OF_LABEL)}"' for label, text in labels.items())
            yield f"{metric.name}{suffix}{f'{{{shown}}}' if shown else ''} {_number(value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))
