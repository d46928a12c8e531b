"""The lag of what the arguments name: a consumer group, or a streaming query by its checkpoint."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkasource.admin.lag import LagReport, PartitionLag, ends_of, of_group

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster


def add_group_or_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a group or a query; the user gives one of them."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("-g", "--group", metavar="GROUP", help="a consumer group")
    which.add_argument("-c", "--checkpoint", metavar="LOCATION", help="the checkpointLocation of a streaming query")


def lag_report(cluster: Cluster, arguments: argparse.Namespace) -> LagReport:
    return of_group(cluster, arguments.group) if arguments.group else of_query(cluster, arguments.checkpoint)


def of_query(cluster: Cluster, location: str) -> LagReport:
    """The lag of a streaming query: what its checkpoint has finished, against the current ends of the logs."""
    from kafkasource.cli.checkpoint import read_checkpoint

    checkpoint = read_checkpoint(location)
    offsets = checkpoint.done.offsets or (checkpoint.planned.offsets if checkpoint.planned else {})
    ends = ends_of(cluster, offsets)
    which = f"micro-batch {checkpoint.done_batch}" if checkpoint.done_batch is not None else "its first plan"
    places = [PartitionLag(tp, offset, ends.get(tp)) for tp, offset in sorted(offsets.items())]
    return LagReport(
        f"query of {location} after {which}", places, None, {"checkpoint": location, "batch": checkpoint.done_batch}
    )
