"""List, describe and delete consumer groups: their members, their partitions and their lag."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, GroupIdNotFound, KafkaSourceError, NonEmptyGroup
from kafkasource.options.spelling import many
from kafkasource.tools.admin.groups import all_groups, as_json
from kafkasource.tools.cli import tables
from kafkasource.tools.cli.arguments import add_cluster, add_json, reached_cluster

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.groups import MemberDescription
    from kafkasource.tools.admin.lag import LagReport

HELP = "list, describe (members, lag), delete consumer groups"


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("list", help="all groups with their state and how many members they have")
    show.set_defaults(run=_list)
    describe = commands.add_parser("describe", help="the total lag, then members, then each partition")
    describe.add_argument("groups", nargs="+", metavar="GROUP")
    describe.set_defaults(run=_describe)
    delete = commands.add_parser("delete", help="delete groups that have no members, with their offsets")
    delete.add_argument("groups", nargs="+", metavar="GROUP")
    delete.set_defaults(run=_delete)
    for command in (show, describe, delete):
        add_cluster(command)
        add_json(command)


def _list(arguments: argparse.Namespace) -> int:
    """Exit code 1 where a group may not be described, or a broker does not answer; the rest is shown all the same."""
    with reached_cluster(arguments) as cluster:
        groups = all_groups(cluster)
    refused = [line.refusal for line in groups.lines if line.refusal is not None]
    rows = [line.as_json() for line in groups.lines]
    if not refused:
        for row in rows:
            del row["error"]
    if arguments.json:
        print(json.dumps(rows, indent=1))
    elif rows:
        tables.show([*rows[0]], [[*row.values()] for row in rows])
    elif not groups.unreachable:
        print("no groups: no consumer has joined one or committed offsets")
    problems = [
        f"broker {node_id} does not answer, so the groups that it coordinates are not shown: {error}"
        for node_id, error in sorted(groups.unreachable.items())
    ]
    if refused:
        problems.append(f"{len(refused)} of {many(len(rows), 'group')} cannot be described: {refused[0]}")
    if problems:
        raise KafkaSourceError("; ".join(problems))
    return 0


def _describe(arguments: argparse.Namespace) -> int:
    from kafkasource.tools.admin.lag import of_group

    with reached_cluster(arguments) as cluster:
        reports = [of_group(cluster, name) for name in arguments.groups]
    if arguments.json:
        print(json.dumps([as_json(report) for report in reports], indent=1))
        return 0
    for number, report in enumerate(reports):
        if number:
            print()
        _print(report)
    return 0


def _print(report: LagReport) -> None:
    print(report.totals)
    reading = Counter(place.member.member_id for place in report.places if place.member is not None)
    if report.group is not None and report.group.members:
        print()
        rows: list[tuple[tables.Cell, ...]] = []
        for member in report.group.members:
            name, to_come = member.instance_id or member.member_id, len(member.to_come) or None
            rows.append((name, member.client_id, member.host, reading[member.member_id], to_come))
        tables.show(("member", "client", "host", "partitions", "to come"), rows, optional="to come")
    print_partitions(report)


def _client_of(member: MemberDescription | None) -> str | None:
    return None if member is None else member.instance_id or member.client_id


def print_partitions(report: LagReport) -> None:
    """A line for each partition, those with most lag first."""
    if not report.places:
        return
    print()
    rows = [
        (*place.tp, place.consumed, place.latest, place.lag, _client_of(place.member))
        for place in sorted(report.places, key=lambda place: (-(place.lag or 0), place.tp))
    ]
    tables.show(("topic", "partition", "offset", "latest", "lag", "client"), rows, optional="client")


def _delete(arguments: argparse.Namespace) -> int:
    """Exit code 1 where one was not deleted."""
    with reached_cluster(arguments) as cluster:
        done = cluster.groups.delete(arguments.groups)
    failed = {name: error for name, error in done.items() if error is not None}
    if arguments.json:
        print(json.dumps({"deleted": [name for name in done if name not in failed]}))
    for name in done if not arguments.json else ():
        if name not in failed:
            print(f"deleted {name}")
    if failed:
        raise KafkaSourceError("; ".join(_why_not(name, error) for name, error in failed.items()))
    return 0


def _why_not(name: str, error: BrokerError) -> str:
    if isinstance(error, NonEmptyGroup):
        return f"group {name!r} has members: end them first (`pykafka groups describe {name}` shows them)"
    if isinstance(error, GroupIdNotFound):
        return f"no group {name!r} (`pykafka groups list` shows all)"
    return f"group {name!r}: {error.reason}"
