"""Secrets over Spark Connect, which shows every option in clear: on its page, in descriptions of jobs, in event logs.

The setting `spark.sql.redaction.string.regex` hides them. A process that plans does not get Spark's settings, so it
cannot know this one. `kafkasource.register` can: it has the session, and tells the class that it registers.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping

from kafkasource.kafka.process import PerProcess
from kafkasource.kafka.security.secrets import has_reference
from kafkasource.options.java_regex import compile_java
from kafkasource.options.parse import is_secret

log = logging.getLogger("kafkasource")

REDACTION = "spark.sql.redaction.string.regex"
_ARTIFACTS = "SPARK_JOB_ARTIFACT_UUID"  # Spark sets it for each Python process: the Connect session's, else "default"
_CLUSTERS = "clusters"
_SAMPLE = 'options {\n  key: "kafka.sasl.jaas.config"\n  value: "in \\"clear\\""\n}'  # as Connect shows an option
_warned: PerProcess[set[str]] = PerProcess(set)


def hides_secrets(expression: str | None) -> bool:
    """Whether Spark hides an option that holds a secret, with this value of the setting `REDACTION`."""
    if not expression:
        return False
    try:
        return "clear" not in compile_java(expression).sub("", _SAMPLE)
    except ValueError:  # Java knows what Python does not
        return True


def is_over_connect(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this Python process of Spark's works for a session of Spark Connect. `environment`: the process's."""
    session = (os.environ if environment is None else environment).get(_ARTIFACTS, "")
    return session not in ("", "default")


def secrets_as_text(written: Mapping[str, str]) -> list[str]:
    """The options, as the user named them, that hold a secret and not only a reference to one. Sorted."""
    return sorted({key for key, name, text in _each(written) if is_secret(name) and text and not has_reference(text)})


def warn_of_secrets_as_text(written: Mapping[str, str]) -> None:
    """Warn of options that Spark Connect shows: once in a process."""
    shown = ", ".join(map(repr, secrets_as_text(written))) if is_over_connect() else ""
    if not shown or shown in _warned.get():
        return
    _warned.get().add(shown)
    log.warning(
        "Spark Connect shows the value of %s in clear text, on its page and in event logs. Give a reference such as "
        "${env:NAME} or ${file:/path:key}, or set %s on the server (docs/secrets.md has the expression)",
        shown, REDACTION,
    )  # fmt: skip


def warn_of_explain_mode(mode: str | None) -> None:
    """Warn of a value of Spark's `spark.sql.ui.explainMode` with which Spark shows the options of a write."""
    if mode is None or mode.lower() in ("simple", "formatted") or mode in _warned.get():
        return
    _warned.get().add(mode)
    log.warning(
        "with spark.sql.ui.explainMode=%s Spark shows the options of a write in its UI and event log, and not all "
        "secrets among them are hidden. Give references such as ${env:NAME} or ${file:/path:key}, or leave the setting "
        "at formatted",
        mode,
    )


def _each(written: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each option, those of `clusters` too: the key as the user wrote it, the option's name, its text."""
    for key, text in written.items():
        if key.lower() == _CLUSTERS:
            yield from ((key, name, each) for name, each in _of_json(str(text)))
        elif key.lower().startswith(f"{_CLUSTERS}."):
            yield key, key.split(".", 2)[-1], str(text)
        else:
            yield key, key, str(text)


def _of_json(text: str) -> Iterator[tuple[str, str]]:
    try:
        clusters = json.loads(text)
    except ValueError:
        return  # the sink's own check says what is wrong
    for own in clusters.values() if isinstance(clusters, dict) else ():
        for name, value in own.items() if isinstance(own, dict) else ():
            yield str(name), str(value)
