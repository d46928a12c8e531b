"""Types of options: each makes a value of a user's text, and says in errors what was expected."""

from __future__ import annotations

import json
import re
from typing import NoReturn

from kafkasource.kafka.config import SERVERS_FORM, server_pairs
from kafkasource.kafka.security.option import MAX_INT32, Misspelt, Type
from kafkasource.options.spelling import did_you_mean
from kafkasource.types import TOPIC_NAME, IsolationLevel, NewTopic

KIB, MIB = 1024, 1024 * 1024
_DURATION_US = {"us": 1, "ms": 10**3, "s": 10**6, "m": 6 * 10**7, "min": 6 * 10**7, "h": 36 * 10**8, "d": 864 * 10**8}


def json_fault(text: str, error: Exception) -> str:
    """Say at which place a JSON text is broken, as the end of an error. Empty where the text is not meant as JSON."""
    if not isinstance(error, json.JSONDecodeError) or not text.lstrip().startswith(("{", "[")):
        return ""
    place = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"character {error.pos + 1}"
    return f". It is not JSON at {place}: {error.msg}"


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _duration_ms(text: str) -> int:
    """Milliseconds of `15m`, `500ms`, `10` (a bare number is ms already), as Spark's own time strings."""
    match = re.fullmatch(r"(-?\d+)([a-z]*)", text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _DURATION_US[match[2] or "ms"] // 1000


def _size_bytes(text: str) -> int:
    """Bytes of `64m`, `1g`, `1024` (a bare number is bytes already), as Spark's own sizes."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) << 10 * "_kmgtp".index(match[2] or "_")


def _gzip_level(text: str) -> int:
    level = int(text.strip())
    return level if level == -1 or 1 <= level <= 9 else _refuse(text)


# All other settings of a topic have a dot in their names.
_UNDOTTED = ("partitions", "replication", "preallocate")


def _new_topic(text: str) -> NewTopic:
    """`partitions=6,replication=3,cleanup.policy=compact,delete`: a piece without `=` continues the value before."""
    pairs: dict[str, str] = {}
    name = ""
    for piece in text.split(","):
        key, equals, value = piece.partition("=")
        if equals:
            name = key.strip()
            if name in pairs:
                raise Misspelt(f"{name!r} is there twice")
            setting = re.fullmatch(r"[a-z]+(\.[a-z]+)+", name) and name != "replication.factor"
            if not setting and name not in _UNDOTTED:
                raise Misspelt(f"a topic has no setting {name!r}{did_you_mean(name, _UNDOTTED)}")
            pairs[name] = value.strip()
        elif name:
            pairs[name] += "," + piece.strip()
        else:
            raise ValueError(text)
    partitions, replication = int(pairs.pop("partitions", "-1")), int(pairs.pop("replication", "-1"))
    if not (partitions == -1 or 1 <= partitions <= MAX_INT32) or not (replication == -1 or 1 <= replication < 2**15):
        raise ValueError(text)
    return NewTopic(partitions, replication, tuple(pairs.items()))


def _function(text: str) -> str:
    return text.strip() if re.fullmatch(r"\s*[\w.]+:\w+\s*", text) else _refuse(text)


PARTITIONERS = ("murmur2", "murmur2_round_robin")


def _partitioner(text: str) -> str:
    return text.strip() if text.strip() in PARTITIONERS else _function(text)


def _bad_records(text: str) -> str:
    """`fail`, `column`, or `topic:` and a name that Kafka allows."""
    word, colon, name = text.strip().partition(":")
    allowed = colon and TOPIC_NAME.fullmatch(name) and name not in (".", "..")
    if (word.lower(), colon) in (("fail", ""), ("column", "")) or (word.lower() == "topic" and allowed):
        return word.lower() + colon + name
    return _refuse(text)


def _old_release(text: str) -> str:
    match = re.fullmatch(r"(auto|0\.9\.0|0\.8\.2)(?:\.\d+)?", text.strip().lower())
    return match[1] if match else _refuse(text)


STRING = Type("a text that is not empty", lambda text: text.strip() or _refuse(text))
JSON = Type("JSON", lambda text: text.strip() or _refuse(text))
BOOLEAN = Type("true or false", _boolean)
INTEGER = Type("a whole number", lambda text: int(text.strip()))
MILLISECONDS = Type("a whole number of milliseconds", lambda text: int(text.strip()))
BYTES = Type("a whole number of bytes", lambda text: int(text.strip()))
TIMESTAMP = Type("a whole number of milliseconds since 1970-01-01 UTC", lambda text: int(text.strip()))
DURATION = Type("a duration such as 500ms, 5s, 15m (a bare number: ms)", _duration_ms)
SIZE = Type("a size such as 64m, 1g (a bare number: bytes)", _size_bytes)
GZIP_LEVEL = Type("-1 or a whole number from 1 to 9", _gzip_level)  # as in Java, not 0
NEW_TOPIC = Type(
    "partitions=6,replication=3,cleanup.policy=compact (any of these; any of the topic's settings)",
    _new_topic,
)
FUNCTION = Type("module:function", _function)


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    return names if all(names) and len(set(names)) == len(names) else _refuse(text)


COLUMNS = Type("names of columns, each once, separated by commas", _columns)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(text)
    return names


NAMES = Type("names, each once, separated by commas", _names)


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    headers = json.loads(text)
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ValueError(text)
    return tuple(headers.items())


HEADERS = Type('JSON such as {"from":"east"}', _headers)
PARTITIONER = Type(f"{', '.join(PARTITIONERS)} or module:function", _partitioner)
BAD_RECORDS = Type("fail, column (to read) or topic:NAME (to write)", _bad_records)
OLD_RELEASE = Type("auto, 0.9.0 or 0.8.2", _old_release)
ISOLATION_LEVEL = Type("one of " + ", ".join(map(str, IsolationLevel)), IsolationLevel.parse)
SERVERS = Type(SERVERS_FORM, server_pairs)


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def choice(*allowed: str) -> Type[str]:
    """One of a few words, in any case; the value is the word as it is written here."""
    words = {word.lower(): word for word in allowed}
    return Type("one of " + ", ".join(allowed), lambda text: words[text.strip().lower()])


_BEFORE_JSON = re.compile(r"\ufeff?(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)  # comments, too, as Avro takes them


def is_json(schema: str) -> bool:
    """Whether a schema's text is JSON, as Avro's and JSON Schemas are. No .proto text, base64 or `latest` is."""
    start = _BEFORE_JSON.match(schema)
    assert start is not None  # it may be empty
    return schema.startswith(("{", "[", '"'), start.end())


def is_schema(text: str, format_name: str) -> bool:
    """Whether the text of an option is a schema itself, and not where to find it. `format_name`: not of JSON in DDL."""
    return "message" in text if format_name == "protobuf" else is_json(text)


FORMATS = ("binary", "string", "avro", "protobuf", "json")
REGISTERED_FORMATS = ("avro", "protobuf")  # a record names the schema that it was written with
SCHEMA_FORMATS = (*REGISTERED_FORMATS, "json")  # a column has the columns of a schema
FORMAT = choice(*FORMATS)
