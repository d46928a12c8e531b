"""`pykafka`, also `python -m kafkasource`: what people do around Kafka jobs, from a shell.

Each command has a file in this folder; `_COMMANDS` is the list. A command's module has a docstring, which `--help`
shows, a line of `HELP`, perhaps `EXAMPLES`, and `add`. `add` gives the parser its arguments and sets `run`, a function
from the parsed arguments to the exit code.

    0    done                 1    an expected error: one line on stderr, with its remedy; or the answer is "no"
    2    wrong arguments      130  Ctrl-C (143: SIGTERM), after cleaning up; 0 where that is the way to end a command
                              141  the reader of stdout closed the pipe (`| head`); `cat` exits with the same code

Results go to stdout, everything else (progress, warnings, totals) to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from kafkasource import __version__
from kafkasource.errors import KafkaSourceError, escaped
from kafkasource.kafka.security.quoting import without_password
from kafkasource.options.spelling import did_you_mean
from kafkasource.tools.cli.terminal import safe_output

INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143

_COMMANDS = (
    "topics",
    "read",
    "write",
    "groups",
    "lag",
    "metrics",
    "ui",
    "offsets",
    "transactions",
    "schemas",
    "dlq",
    "mirror",
    "broker",
    "registry",
    "demo",
    "cache",
    "doctor",
    "bundle",
    "completion",
)

_IN_OTHER_TOOLS = {"consume": "read", "produce": "write"}  # a command of rpk: ours
_OF_KCAT = {
    "-t": "give the topic without it",
    "-C": "leave it out",
    "-P": "leave it out",
    "-e": "leave it out, as the command ends at the current end unless it follows",
    "-q": "leave it out",
    "-J": "it is --json for `read`; `write --format json` takes its lines",
}

_NAMES = {"topic", "topics", "group", "groups", "checkpoint", "to_checkpoint", "bootstrap_servers"}  # never empty


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115  None: closed, as by `<&-`
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    _escape_what_cannot_be_shown()
    try:
        arguments = _arguments(argv)
        with safe_output(), _terminable(), _warnings_on_stderr():
            code: int = arguments.run(arguments)
            sys.stdout.flush()
        return code
    except KafkaSourceError as error:
        _tell(str(error))
        return 1
    except _Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        print("pykafka: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `pykafka read events | head -1`
        _drop_stdout()
        return PIPE_CLOSED
    except OSError as error:  # a full disk under stdout, a folder that cannot be made
        _drop_stdout()
        what = error.filename or "cannot write the output"
        _tell(f"{what}: {error.strerror or error}")
        return 1


def _tell(message: str) -> None:
    """Print on stderr, without the password that a checkpoint's location may have in it."""
    print(f"pykafka: {escaped(without_password(message))}", file=sys.stderr)


def _escape_what_cannot_be_shown() -> None:
    """Show an escape for a character that the terminal's encoding lacks, such as the arrow before a remedy."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_stdout() -> None:
    """Discard the buffer's rest, without an error at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of_all()
    first = next(iter(sys.argv[1:] if argv is None else argv), "")
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        parser.error(f"{first} stands before the command: options follow it, as in `pykafka topics list -b HOST:PORT`")
    arguments = parser.parse_args(argv)
    for name, value in vars(arguments).items():
        if name in _NAMES and "" in (value if isinstance(value, list) else [value]):
            parser.error(f"{name.replace('_', ' ')}: the name is empty; is a shell variable not set?")
    return arguments


def parser_of_all() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(prog="pykafka", description="Kafka for PySpark without jars.")
    parser.add_argument("--version", action="version", version=f"pykafka {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in _COMMANDS:
        command: Any = importlib.import_module(f"kafkasource.tools.cli.{name}")
        command.add(
            commands.add_parser(
                name,
                help=command.HELP,
                description=command.__doc__,
                epilog=getattr(command, "EXAMPLES", None),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser


class _Parser(argparse.ArgumentParser):
    """Names `--help` in its errors, prints the help for an incomplete command, and suggests the nearest name for a
    misspelt command or option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        arguments, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            known = [name for name in self._option_string_actions if name.startswith("--")]
            meant = did_you_mean(unknown[0].partition("=")[0], known) if unknown[0].startswith("--") else ""
            meant += "".join(f" ({option} of kcat: {_OF_KCAT[option]})" for option in unknown if option in _OF_KCAT)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return arguments, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest the nearest name. argparse offers no public hook; this method is the same from Python 3.10 on."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        here = _IN_OTHER_TOOLS.get(value)
        meant = did_you_mean(str(value), known) if here is None else f" (it is `pykafka {here}` here)"
        raise argparse.ArgumentError(action, f"{value!r} is not one of {', '.join(known)}{meant}")

    def error(self, message: str) -> NoReturn:
        if message.endswith("required: COMMAND"):
            self.print_help(sys.stderr)
            self.exit(2)
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message} (`{self.prog} --help` lists all options)\n")


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as a KeyboardInterrupt: code that cleans up after Ctrl-C does so here too."""


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminated(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _OnStderr(logging.Handler):
    """Warnings of the package, a line each; the stream is looked up late, as tests replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        _tell(record.getMessage())


def _on_stderr(
    message: Warning | str, category: object, filename: str, lineno: int, file: object = None, line: object = None
) -> None:
    """A Python warning, without the line of code that it came from."""
    _tell(str(message))


@contextlib.contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    log, handler = logging.getLogger("kafkasource"), _OnStderr(logging.WARNING)
    ours = not log.handlers  # else KAFKASOURCE_LOG has set some
    if ours:
        log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _on_stderr
            # pyspark and pandas warn programmers of changes to come. A shell user cannot act on these warnings.
            warnings.filterwarnings("ignore", category=FutureWarning, module=r"(pyspark|pandas)\b")
            yield
    finally:
        log.removeHandler(handler)
