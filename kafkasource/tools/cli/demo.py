"""JSON events through a real Kafka and Spark, with a live table."""

from __future__ import annotations

import argparse

HELP = "JSON events through a real Kafka and Spark, with a live table"


def add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.demo import main

    return main()
