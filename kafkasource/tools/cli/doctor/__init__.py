"""Check what a job needs: Python, kernel, Spark, Java, and a cluster with each of its brokers.

Of each address of a broker it shows TCP, TLS with the certificates, and SASL. It names the stage that failed: DNS, TCP,
TLS, ApiVersions or SASL. With --topic, --group and --exactly-once it shows which operations the user may carry out.
It changes nothing on the cluster, and on this machine only what --fix names.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from kafkasource.errors import OptionError
from kafkasource.tools.cli.arguments import add_cluster, add_json, bootstrap_servers
from kafkasource.tools.cli.command_config import ENVIRONMENT, file_options
from kafkasource.tools.cli.doctor.finding import FAILED, OK, Finding
from kafkasource.tools.cli.doctor.machine import machine_findings
from kafkasource.tools.cli.doctor.start import start_findings

HELP = "what a job needs: Python, kernel, Spark, Java, brokers, their addresses and certificates, permissions"
EXAMPLES = """\
examples:
  pykafka doctor
  pykafka doctor job.py
  pykafka doctor --fix
  pykafka doctor --command-config client.properties --json
  pykafka doctor -b broker-1:9093 --topic orders --group billing --exactly-once orders-copy
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job",
        nargs="?",
        type=Path,
        metavar="JOB.py",
        help="a program that Spark runs: say which Python its workers will be, if this Python runs it",
    )
    add_cluster(parser)
    parser.add_argument(
        "-t",
        "--topic",
        action="append",
        default=[],
        dest="topics",
        metavar="TOPIC",
        help="a topic that the job reads or writes: what may the user do with it? May be repeated",
    )
    parser.add_argument(
        "-g",
        "--group",
        action="append",
        default=[],
        dest="groups",
        metavar="GROUP",
        help="a consumer group of the job (kafka.group.id); may be repeated",
    )
    parser.add_argument(
        "--exactly-once",
        nargs="?",
        const="kafkasource-",
        metavar="PREFIX",
        help="the job writes exactly once, with this transactionalIdPrefix; default: that of streams that set none",
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="add compiled code to Spark's pyspark.zip, so that Spark's Python processes start faster; "
        "the file as it was stays beside it",
    )
    add_json(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    """Exit code 1 where something failed."""
    findings = []
    for finding in _findings(arguments):
        findings.append(finding)
        if not arguments.json:
            print(f"{finding.level:<8} {finding.what:<16} {finding.found}", flush=True)
            if finding.remedy:
                print(f"{'':<25} → {finding.remedy}", flush=True)
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    return 1 if any(finding.level == FAILED for finding in findings) else 0


def _findings(arguments: argparse.Namespace) -> Iterator[Finding]:
    yield from machine_findings(arguments.job)
    yield from start_findings(arguments.fix)
    try:
        file_options(arguments)
    except OptionError as error:
        yield Finding(
            FAILED, "cluster", str(error), f"correct the file, or what --command-config or {ENVIRONMENT} names"
        )
        return
    try:
        servers = bootstrap_servers(arguments)
    except OptionError:
        yield Finding(OK, "cluster", "none named, so none looked at: --bootstrap-servers names one")
        return
    from kafkasource.tools.cli.doctor.cluster import cluster_findings  # only here: it brings the client

    yield from cluster_findings(arguments, servers)
