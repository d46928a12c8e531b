"""The lag of what the arguments name: a consumer group, or a streaming query by its checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kafkasource.admin.lag import LagReport, of_group, places_of

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster


def add_group_or_checkpoint(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the arguments that name a group or a query; the user gives one of them."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("-g", "--group", metavar="GROUP", help="a consumer group")
    which.add_argument("-c", "--checkpoint", metavar="LOCATION", help="the checkpointLocation of a streaming query")
    return which


def lag_report(cluster: Cluster, arguments: argparse.Namespace) -> LagReport:
    return of_group(cluster, arguments.group) if arguments.group else of_query(cluster, arguments.checkpoint)


def of_query(cluster: Cluster, location: str, name: str | None = None) -> LagReport:
    """The lag of a streaming query: what its checkpoint has finished, against the current ends of the logs. Before its
    first micro-batch is done, that is where this one starts; the JVM connector's does not say. `name`: for people, in
    place of the checkpoint's."""
    from kafkasource.source.plan.checkpoint import read_checkpoint

    checkpoint = read_checkpoint(location)
    done, planned = checkpoint.done.offsets, checkpoint.planned
    if done or planned is None:
        consumed, partitions = done, done
    else:  # its end is read only when it is done
        consumed, partitions = planned.start.offsets if planned.start else {}, planned.offsets
    which = (
        f"after micro-batch {checkpoint.done_batch}"
        if checkpoint.done_batch is not None
        else "in its first micro-batch"
    )
    places = places_of(cluster, {tp: consumed.get(tp) for tp in partitions})
    where = checkpoint.shown_location  # it may be beneath `location`
    return LagReport(
        f"{name or f'query of {where}'} {which}",
        places,
        None,
        {"checkpoint": where, "batch": checkpoint.done_batch},
    )


@contextmanager
def of_mirror(file: str) -> Iterator[Callable[[], list[LagReport]]]:
    """Asks the clusters that a mirror reads, each as the file says, for the lag of each of its queries."""
    from kafkasource import options
    from kafkasource.cli import mirror
    from kafkasource.cli.arguments import reach
    from kafkasource.client.cluster import Cluster
    from kafkasource.client.config import ClientConfig
    from kafkasource.mirror import job

    routes = job.check(mirror.read(file))
    with ExitStack() as opened:
        clusters = []
        for route in routes:
            given = {"kafka.client.id": "pykafka", **route.clients[route.source]}
            config = ClientConfig.from_options(options.parse(given, "source"))
            reach(config)
            clusters.append(opened.enter_context(Cluster(config)))

        def reports() -> list[LagReport]:
            return [
                of_query(cluster, str(route.checkpoint), ", ".join(map(str, route.flows)))
                for cluster, route in zip(clusters, routes, strict=True)
            ]

        yield reports
