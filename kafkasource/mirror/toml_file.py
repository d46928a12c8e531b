"""From a mirror's TOML file to a Plan. An unknown key is an error: all keys are ours, so it is mistyped.

    checkpoint = "/checkpoints/mirror"        # where Spark keeps its progress: a folder for each cluster that it reads

    [clusters.east]                           # options of the format, for reading from it and writing to it
    kafka.bootstrap.servers = "e1:9092"

    [[flows]]
    from = "east"
    to = ["west", "north"]
    topics = ["orders.*", "customers"]        # Java regular expressions of whole names
    topic = "${source}.${topic}"              # the name at the target

docs/mirror-file.md has all keys; the tables below name the keys that are accepted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.mirror.flow import LOCAL_SETTINGS, Flow
from kafkasource.mirror.plan import Plan
from kafkasource.options.spelling import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

_OF_PLAN = (
    "checkpoint",
    "clusters",
    "flows",
    "read",
    "write",
    "spark",
    "trigger",
    "exactly_once",
    "provenance",
    "metrics",
    "refresh_topics",
    "refresh_settings",
)
_OF_FLOW = (
    "from",
    "to",
    "topics",
    "exclude",
    "topic",
    "enabled",
    "options",
    "replication_factor",
    "create_topics",
    "sync_settings",
    "exclude_settings",
    "offset_map",
    "origin_header",
)


def parse(text: str, where: str) -> Plan:
    """`where` names the file in errors. Raises OptionError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{where}: not TOML: {error}") from None
    try:
        return _plan(document)
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from None


def _plan(document: Mapping[str, object]) -> Plan:
    _check(document, _OF_PLAN, "")
    clusters = {}
    for name, given in _table(document, "clusters", "").items():
        clusters[name] = _options(given, f"clusters.{name}", ("source", "sink"))
    flows = document.get("flows", [])
    if not isinstance(flows, list) or not all(isinstance(one, dict) for one in flows):
        raise OptionError("flows: expected one [[flows]] table for each flow")
    plain = _Values(document, "")
    return Plan(
        clusters=clusters,
        flows=tuple(flow for one in flows for flow in _flows(one)),
        checkpoint=plain.text("checkpoint"),
        read=_options(document.get("read", {}), "read", ("source",)),
        write=_options(document.get("write", {}), "write", ("sink",)),
        spark=_settings(document.get("spark", {})),
        trigger=plain.text("trigger"),
        exactly_once=plain.boolean("exactly_once", False),
        provenance=plain.boolean("provenance", False),
        **_metrics(plain.text("metrics")),
        refresh_topics_s=plain.seconds("refresh_topics", Plan.refresh_topics_s),
        refresh_settings_s=plain.seconds("refresh_settings", Plan.refresh_settings_s),
    )


def _metrics(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    match = re.fullmatch(r"(?:([^:\s]+):)?(\d{1,5})", text)
    if match is None or int(match[2]) > 65535:
        raise OptionError(f'metrics: expected "port" or "host:port", got {text!r}')
    return {"metrics_port": int(match[2])} | ({"metrics_host": match[1]} if match[1] else {})


def _flows(given: Mapping[str, object]) -> Iterator[Flow]:
    """A flow for each target."""
    _check(given, _OF_FLOW, "flows.")
    values = _Values(given, "flows.")
    source, targets = values.text("from"), values.texts("to", ())
    if source is None or not targets:
        raise OptionError("flows: each flow needs from = and to =")
    if not values.boolean("enabled", True):
        return
    for target in targets:
        yield Flow(
            source=source,
            target=target,
            topics=values.texts("topics", Flow.topics),
            exclude=values.texts("exclude", ()),
            topic=values.text("topic") or Flow.topic,
            options=_options(given.get("options", {}), f"flows.options ({source}->{target})", ("sink",)),
            replication_factor=values.number("replication_factor", -1),
            create_topics=values.boolean("create_topics", True),
            sync_settings=values.boolean("sync_settings", True),
            exclude_settings=values.texts("exclude_settings", LOCAL_SETTINGS),
            offset_map=values.boolean("offset_map", True),
            origin_header=values.boolean("origin_header", True),
        )


class _Values:
    """Reads the values of a table and checks their types. Raises OptionError, which names the key."""

    def __init__(self, table: Mapping[str, object], prefix: str) -> None:
        self._table, self._prefix = table, prefix

    def _get(self, key: str, expected: str, *kinds: type[T]) -> T | None:
        value = self._table.get(key)
        if value is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))):
            return value
        raise OptionError(f"{self._prefix}{key}: expected {expected}, got {value!r}")

    def text(self, key: str) -> str | None:
        return self._get(key, "a text", str)

    def boolean(self, key: str, default: bool) -> bool:
        found = self._get(key, "true or false", bool)
        return default if found is None else found

    def number(self, key: str, default: int) -> int:
        found = self._get(key, "a whole number", int)
        return default if found is None else found

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        found = self._get(key, "a text, or a list of them", str, list)
        if found is None:
            return default
        several: Sequence[object] = [found] if isinstance(found, str) else found
        texts = tuple(one for one in several if isinstance(one, str) and one)
        if len(texts) < len(several):
            raise OptionError(f"{self._prefix}{key}: expected non-empty strings, got {found!r}")
        return texts

    def seconds(self, key: str, default: float) -> float:
        text = self._get(key, 'a time such as "5s"', str, int)
        if text is None:
            return default
        try:
            found = float(options.DURATION.parse(str(text))) / 1000
        except (ValueError, KeyError):
            found = 0.0
        if found <= 0:
            raise OptionError(f'{self._prefix}{key}: expected a time such as "5s", got {text!r}')
        return found


def _table(document: Mapping[str, object], key: str, prefix: str) -> Mapping[str, object]:
    found = document.get(key, {})
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise OptionError(f"{prefix}{key}: expected a table [{prefix}{key}.NAME] for each")
    return found


def _options(given: object, where: str, roles: tuple[options.Role, ...]) -> dict[str, str]:
    """Options as Spark takes them: TOML reads `kafka.acks` without quotation marks as tables in each other."""
    if not isinstance(given, dict):
        raise OptionError(f"{where}: expected a table of options")
    found = {}
    for key, value in _flat(given):
        hints = [options.unknown(key, role) for role in roles]
        if all(hints):
            raise OptionError(f"{where}: unknown option {key!r}: {hints[-1]}")
        found[key] = _text(value, f"{where}: option {key!r}")
    return found


def _settings(given: object) -> dict[str, str]:
    """`[spark]`: `sql.shuffle.partitions = 2`, with or without `spark.` before it."""
    if not isinstance(given, dict):
        raise OptionError("spark: expected a table of settings")
    return {"spark." + key.removeprefix("spark."): _text(value, f"spark: {key!r}") for key, value in _flat(given)}


def _text(value: object, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int)):
        raise OptionError(f"{where}: expected a string, a whole number or a boolean, got a {type(value).__name__}")
    return str(value)


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _check(table: Mapping[str, object], known: tuple[str, ...], prefix: str) -> None:
    for key in table:
        if key not in known:
            near = nearest(key, known)
            hint = f"there are {', '.join(known)}" if near is None else f"did you mean {near}?"
            raise OptionError(f"unknown key {prefix}{key}: {hint}")
