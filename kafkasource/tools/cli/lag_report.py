"""The lag of what the arguments name: a consumer group, or a streaming query by its checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.security.quoting import without_password
from kafkasource.tools.admin.lag import LagReport, of_group, places_of

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.mirror.positions import Reader
    from kafkasource.source.plan.checkpoint import Files


def add_group_or_checkpoint(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the arguments that name a group or a query; the user gives one of them."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("-g", "--group", metavar="GROUP", help="a consumer group")
    which.add_argument("-c", "--checkpoint", metavar="LOCATION", help="the checkpointLocation of a streaming query")
    return which


def lag_report(cluster: Cluster, arguments: argparse.Namespace) -> LagReport:
    return of_group(cluster, arguments.group) if arguments.group else of_query(cluster, arguments.checkpoint)


def of_query(cluster: Cluster, location: str, name: str | None = None) -> LagReport:
    """The lag of a streaming query: from the offsets that its checkpoint has finished to the current ends of the logs.

    Before its first micro-batch is done, the lag counts from the start of that micro-batch, which the JVM connector's
    checkpoint does not have. `name`: replaces the checkpoint's name in texts."""
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


def _of_reader(cluster: Cluster, files: Files, source: str, reader: Reader) -> LagReport:
    """The lag of a query of a mirror. It starts where the mirror's record says, if it has not begun."""
    from kafkasource.source.plan.checkpoint import checkpoint_in

    folder = f"{source}/{reader.name}"
    flows = ", ".join(f"{source}->{flow.target}" for flow in reader.flows)
    name = f"{flows}, which catches up," if reader.catches_up else flows
    where = f"{files.location.rstrip('/')}/{folder}"
    if checkpoint_in(files, folder) is not None:
        return of_query(cluster, where, name)
    return LagReport(
        f"{name} before its first micro-batch",
        places_of(cluster, reader.start or {}),
        None,
        {"checkpoint": without_password(where), "batch": None},
    )


@contextmanager
def of_mirror(file: str) -> Iterator[Callable[[], list[LagReport]]]:
    """Asks the clusters that a mirror reads, each as the file says, for the lag of each of its queries."""
    from kafkasource import options
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.mirror import job
    from kafkasource.mirror.files import newest_record
    from kafkasource.source.plan.checkpoint import StoredFiles
    from kafkasource.tools.cli import mirror
    from kafkasource.tools.cli.arguments import reach

    plan = mirror.read(file)
    routes = job.check(plan)
    files = StoredFiles(str(plan.checkpoint))
    with ExitStack() as opened:
        clusters = []
        for route in routes:
            given = {"kafka.client.id": "pykafka", **route.clients[route.source]}
            config = ClientConfig.from_options(options.parse(given, "source"))
            reach(config)
            clusters.append(opened.enter_context(Cluster(config)))

        def reports() -> list[LagReport]:
            found = []
            for cluster, route in zip(clusters, routes, strict=True):
                record = newest_record(files, route.source)  # at each look: readers come and go
                if record is None:
                    where = without_password(str(route.checkpoint))
                    raise KafkaSourceError(f"{where} has no record of a mirror's positions: it has not run yet")
                found += [_of_reader(cluster, files, route.source, reader) for reader in record.readers]
            return found

        yield reports
