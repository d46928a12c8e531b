"""Print the metrics of a host's workers, or serve them to Prometheus, from the folder that the workers publish to.

Use it on executors' hosts, whose Python workers write to KAFKASOURCE_METRICS_DIR. kafkasource.serve_metrics serves the
driver's own metrics, with lag and the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.cli.arguments import add_json, port
from kafkasource.tools.cli.serving import add_serving, listening, serve
from kafkasource.tools.cli.terminal import print_document

EXAMPLES = """examples:
  pykafka metrics /var/tmp/kafkasource-1000
  pykafka metrics /var/tmp/kafkasource-1000 --port 9404 --host 0.0.0.0"""
HELP = "what Spark's Python workers of this host have counted; --port serves it to Prometheus"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        default=os.environ.get("KAFKASOURCE_METRICS_DIR"),
        help="the folder that workers write to; default: KAFKASOURCE_METRICS_DIR",
    )
    parser.add_argument("-p", "--port", type=port, metavar="PORT", help="serve /metrics and /api/metrics; Ctrl-C ends")
    add_serving(parser, "KAFKASOURCE_METRICS")
    add_json(parser)
    parser.set_defaults(run=_metrics)


def _metrics(arguments: argparse.Namespace) -> int:
    from kafkasource.metrics import exposition
    from kafkasource.metrics.folder import collect
    from kafkasource.tools.monitor.endpoint import MetricsServer, as_json

    if not arguments.folder:
        raise KafkaSourceError("which folder? Name it, or set KAFKASOURCE_METRICS_DIR")
    folder = Path(arguments.folder)
    if arguments.port is not None:
        return serve(
            lambda at: MetricsServer(at, partial(collect, folder)),
            listening(arguments),
            lambda url: print(f"{url}/metrics", file=sys.stderr, flush=True),
        )
    if not folder.is_dir():
        raise KafkaSourceError(f"there is no folder {folder}: workers create it when they write their first metrics")
    try:
        snapshot = collect(folder)
    except OSError as error:
        raise KafkaSourceError(f"{folder}: {error}") from None
    if arguments.json:
        print(json.dumps(as_json(snapshot), indent=1))
    else:
        print_document(exposition.text(snapshot).decode(), end="")
    return 0
