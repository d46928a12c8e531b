"""List or abort the open transactions of a query with exactly_once."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from kafkasource.tools.cli.arguments import add_cluster, add_json, reached_cluster

if TYPE_CHECKING:
    from kafkasource.exactly_once.names import TransactionalIds
    from kafkasource.exactly_once.query_identity import QueryIdentity
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.sink.open_transactions import OpenTransaction

HELP = "open transactions of a query with exactly_once"


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("list", help="open transactions, since when, and whether their batch is decided")
    add_json(show)
    show.set_defaults(run=_list)
    abort = commands.add_parser(
        "abort",
        help="abort open transactions of a query that will not start again",
        description="Fences the query, so that it fails if it still runs, and aborts its open transactions. Starting "
        "the query again does the same, and also commits the transactions of a batch that is decided already.",
    )
    abort.add_argument(
        "--even-decided", action="store_true", help="also abort transactions of a decided batch: their rows are lost"
    )
    add_json(abort)
    abort.set_defaults(run=_abort)
    for command in (show, abort):
        which = command.add_mutually_exclusive_group(required=True)
        which.add_argument("--prefix", metavar="P", help="the query's transactionalIdPrefix")
        which.add_argument(
            "--checkpoint", metavar="LOCATION", help="its checkpointLocation, if it has no transactionalIdPrefix"
        )
        command.add_argument(
            "--cluster", metavar="NAME", help="if the sink uses the option clusters: the name it gives this cluster"
        )
        add_cluster(command)


def _list(arguments: argparse.Namespace) -> int:
    from kafkasource.sink.open_transactions import open_transactions

    identity = _identity(arguments)
    with reached_cluster(arguments) as cluster:
        names = _all_ids(cluster, identity, arguments)
        transactions = [transaction for ids in names for transaction in open_transactions(cluster, ids)]
    for transaction in transactions:
        print(json.dumps(_as_json(transaction)) if arguments.json else _as_line(transaction))
    if not transactions and not arguments.json:
        print(f"no transaction of {identity.ids.prefix!r} is open")
    return 0


def _abort(arguments: argparse.Namespace) -> int:
    """Exit code 1 where something is left open."""
    from kafkasource.sink.open_transactions import abort

    identity = _identity(arguments)
    aborted, left = [], []
    with reached_cluster(arguments) as cluster:
        names = _all_ids(cluster, identity, arguments)
        for ids in names:
            done, kept = abort(cluster, ids, even_decided=arguments.even_decided)
            aborted += done
            left += kept
    if arguments.json:
        print(json.dumps({"aborted": list(map(_as_json, aborted)), "left_alone": list(map(_as_json, left))}))
    else:
        for transaction in aborted:
            print(f"aborted {_as_line(transaction)}")
        for transaction in left:
            print(f"left alone {_as_line(transaction)}")
    if any(transaction.decided_batch_id is not None for transaction in left):
        print(
            "pykafka: start the query again to commit the decided batch; --even-decided loses its rows", file=sys.stderr
        )
    if not aborted and not left and not arguments.json:
        print(f"no transaction of {identity.ids.prefix!r} was open")
    return 1 if left else 0


def _identity(arguments: argparse.Namespace) -> QueryIdentity:
    from kafkasource.exactly_once.query_identity import IdentitySource

    identity = IdentitySource(arguments.prefix, arguments.checkpoint).find()
    return identity if arguments.cluster is None else identity.of_cluster(arguments.cluster)


def _all_ids(cluster: Cluster, identity: QueryIdentity, arguments: argparse.Namespace) -> list[TransactionalIds]:
    """Every name of the query in this cluster. A prefix that the user gave may be the beginning of another query's."""
    from kafkasource.sink.open_transactions import clusters_of

    if arguments.checkpoint is None or arguments.cluster is not None:
        return [identity.ids]
    return [identity.ids, *(identity.of_cluster(name).ids for name in clusters_of(cluster, identity.ids))]


def _as_json(open_: OpenTransaction) -> dict[str, object]:
    fields = asdict(open_.transaction)
    fields["partitions"] = [str(tp) for tp in open_.transaction.partitions]
    return {**fields, "decided_batch_id": open_.decided_batch_id}


def _as_line(open_: OpenTransaction) -> str:
    known = open_.transaction
    since = ""
    if (open_for_ms := open_.open_for_ms()) is not None:
        since = f" for {round(open_for_ms / 1000)} s of {known.timeout_ms // 1000} s"
    names = ", ".join(map(str, known.partitions[:5]))
    more = f" and {len(known.partitions) - 5} more" if len(known.partitions) > 5 else ""
    where = f", in {names}{more}" if names else ""
    decided = f"; batch {open_.decided_batch_id} is decided with it" if open_.decided_batch_id is not None else ""
    producer = f"producer {known.producer_id} epoch {known.producer_epoch}"
    return f"{open_.name}: {known.state}{since}, {producer}{where}{decided}"
