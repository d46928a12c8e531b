"""Names of a cluster's topics or groups, for a shell that completes a line.

The shell waits for the answer while a person types. So there is a time limit, the output has nothing but names, and an
error means no names. The names come from the network, and a shell inserts them as they are: names that it would have to
quote are left out, so that no name can become a command.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterable

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.cli.arguments import add_cluster, parsed_options, settings_of_role

KINDS = ("topics", "groups")

_LIMIT_S = 1.7  # with the start of Python two seconds
_PLAIN = re.compile(r"[A-Za-z0-9._@%+/][A-Za-z0-9._@%+/-]*")  # and bash breaks a word at : and =


def show(kind: str, line: str) -> None:
    """Print names, one a line. `line`: what is typed, up to the cursor; its -b, -F and -X say which cluster."""
    limit = threading.Timer(_LIMIT_S, os._exit, (0,))  # nothing else ends a look-up of a host's name
    limit.daemon = True
    limit.start()
    logging.disable(logging.CRITICAL)
    names: list[str] = []
    with contextlib.suppress(KafkaSourceError, OSError, SystemExit), contextlib.redirect_stderr(io.StringIO()):
        names = plain(_names(kind, *_split(line)))
    sys.stdout.write("".join(f"{name}\n" for name in names))
    sys.stdout.flush()
    limit.cancel()


def plain(names: Iterable[str]) -> list[str]:
    """The names that no shell has to quote, sorted."""
    return sorted(name for name in names if _PLAIN.fullmatch(name))


def _split(line: str) -> tuple[list[str], str]:
    """The words of the line, and the last word, which the shell completes."""
    for quote in ("", '"', "'"):  # one may be open
        with contextlib.suppress(ValueError):
            words = shlex.split(line + quote)
            break
    else:
        return [], ""
    last = words.pop() if words and not line[-1:].isspace() else ""
    return [os.path.expandvars(os.path.expanduser(word)) for word in words], last


def _names(kind: str, words: list[str], begun: str) -> Iterable[str]:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.config import ClientConfig

    parser = argparse.ArgumentParser(add_help=False)
    add_cluster(parser)
    parser.add_argument("rest", nargs="*")
    arguments, _ = parser.parse_known_args(words)
    limit_ms = str(int(_LIMIT_S * 1000))
    arguments = settings_of_role(arguments, "source")
    arguments.settings += [("default.api.timeout.ms", limit_ms), ("request.timeout.ms", limit_ms)]
    with Cluster(ClientConfig.from_options(parsed_options(arguments, "source"))) as cluster:
        if kind == "groups":
            return [group.group for group in cluster.groups.list_reachable().groups]
        return [topic.name for topic in cluster.topics.list() if not topic.internal or begun.startswith("_")]
