"""`pykafka`, also `python -m kafkasource`: a Kafka to develop against, the demo, and a look at open transactions.

Every error we expect is one line with its remedy (a broker that fails to start adds what it printed) and exit code 1;
Ctrl-C ends with 130, as a shell expects; wrong arguments with 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from kafkasource import __version__
from kafkasource.errors import KafkaSourceError

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster
    from kafkasource.sink.lanes import TransactionalIds
    from kafkasource.sink.open_lanes import OpenTransaction

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except KafkaSourceError as error:
        print(f"pykafka: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pykafka: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `pykafka broker status | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pykafka", description="Kafka for PySpark without jars.")
    parser.add_argument("--version", action="version", version=f"pykafka {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="JSON events through a real Kafka and Spark, with a live table")
    demo.set_defaults(run=_demo)
    broker = commands.add_parser("broker", help="a real Apache Kafka on this machine")
    _add_broker(broker.add_subparsers(required=True, metavar="COMMAND"))
    transactions = commands.add_parser("transactions", help="what a query with exactly_once has open in Kafka")
    _add_transactions(transactions.add_subparsers(required=True, metavar="COMMAND"))
    return parser


def _add_broker(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    start = commands.add_parser("start", help="start one, wait until it is ready, print its bootstrap servers")
    start.add_argument("--kafka-version", metavar="V", help="a release from Maven Central (default 4.3.1)")
    start.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    start.add_argument("--port", type=int, help="of the first node, the others take the next; default: free ones")
    start.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", type=_property, dest="properties"
    )
    start.add_argument("--data", metavar="DIR", help="keep the data here; without it, stop removes the data")
    start.set_defaults(run=_broker_start)
    stop = commands.add_parser("stop", help="stop it and remove its data (unless started with --data)")
    stop.set_defaults(run=_broker_stop)
    status = commands.add_parser("status", help="whether it runs, and where; exit code 1 when it does not")
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(run=_broker_status)


def _add_transactions(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    show = commands.add_parser("list", help="what is open, since when, and whether its batch is decided")
    show.add_argument("--json", action="store_true", help="one JSON object per transaction and line")
    show.set_defaults(run=_transactions_list)
    abort = commands.add_parser(
        "abort",
        help="abort what is open, for a query that will not start again",
        description="Fences the query, so that it fails if it still runs, and aborts what it has open. Starting the "
        "query again does the same, and also commits what belongs to a batch that is decided already.",
    )
    abort.add_argument(
        "--even-decided", action="store_true", help="also what belongs to a decided batch: its rows are lost"
    )
    abort.set_defaults(run=_transactions_abort)
    for command in (show, abort):
        which = command.add_mutually_exclusive_group(required=True)
        which.add_argument("--prefix", metavar="P", help="the query's transactionalIdPrefix")
        which.add_argument("--checkpoint", metavar="LOCATION", help="its checkpointLocation, where it has no prefix")
        command.add_argument(
            "--bootstrap-servers",
            metavar="HOST:PORT,...",
            default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS"),
            help="default: KAFKA_BOOTSTRAP_SERVERS",
        )


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _demo(arguments: argparse.Namespace) -> int:
    from kafkasource.demo import main as demo

    return demo()


def _broker_start(arguments: argparse.Namespace) -> int:
    from kafkasource.broker import DEFAULT_VERSION, detached

    ports = [arguments.port + n for n in range(arguments.nodes)] if arguments.port is not None else None
    version = arguments.kafka_version or DEFAULT_VERSION
    state, ran_already = detached.start(version, arguments.nodes, ports, dict(arguments.properties), arguments.data)
    if ran_already:
        print(f"pykafka: Kafka {state.version} is already running (pykafka broker stop ends it)", file=sys.stderr)
    print(state.bootstrap_servers)  # alone on stdout: BOOTSTRAP=$(pykafka broker start)
    return 0


def _broker_stop(arguments: argparse.Namespace) -> int:
    from kafkasource.broker import detached

    state = detached.stop()
    if state is None:
        print("no broker was started")
    elif state.keeps_data:
        print(f"stopped; its data stays in {state.folder}")
    else:
        print("stopped, its data removed")
    return 0


def _broker_status(arguments: argparse.Namespace) -> int:
    from kafkasource.broker import detached

    state = detached.status()
    running = state is not None and state.running
    if arguments.json:
        print(json.dumps({"running": running, **(asdict(state) if state else {})}))
    elif state is None:
        print("no broker is running: start one with `pykafka broker start`")
    elif running:
        print(f"Kafka {state.version} is running at {state.bootstrap_servers}, its data in {state.folder}")
    else:
        print(f"Kafka {state.version} was started at {state.bootstrap_servers} and has ended: `pykafka broker start`")
    return 0 if running else 1


def _transactions_list(arguments: argparse.Namespace) -> int:
    from kafkasource.sink.open_lanes import open_transactions

    ids = _ids(arguments)
    with _cluster(arguments) as cluster:
        found = open_transactions(cluster, ids)
    for each in found:
        print(json.dumps(_as_json(each)) if arguments.json else _as_line(each))
    if not found and not arguments.json:
        print(f"no transaction of {ids.prefix!r} is open")
    return 0


def _transactions_abort(arguments: argparse.Namespace) -> int:
    """Exit code 1 where something is left open."""
    from kafkasource.sink.open_lanes import abort

    ids = _ids(arguments)
    with _cluster(arguments) as cluster:
        aborted, left = abort(cluster, ids, even_decided=arguments.even_decided)
    for each in aborted:
        print(f"aborted {_as_line(each)}")
    for each in left:
        print(f"left alone {_as_line(each)}")
    if any(each.decided_batch_id is not None for each in left):
        print("pykafka: start the query again to commit what is decided; --even-decided loses it", file=sys.stderr)
    if not aborted and not left:
        print(f"no transaction of {ids.prefix!r} was open")
    return 1 if left else 0


def _ids(arguments: argparse.Namespace) -> TransactionalIds:
    from kafkasource.sink.lanes import transactional_ids

    return transactional_ids(arguments.prefix, {"checkpointlocation": arguments.checkpoint})


def _cluster(arguments: argparse.Namespace) -> Cluster:
    from kafkasource.client.cluster import Cluster
    from kafkasource.client.config import ClientConfig
    from kafkasource.errors import OptionError

    if not arguments.bootstrap_servers:
        raise OptionError("which cluster? Give --bootstrap-servers, or set KAFKA_BOOTSTRAP_SERVERS")
    return Cluster(ClientConfig.of(arguments.bootstrap_servers, client_id="pykafka", default_api_timeout_ms=30_000))


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
