"""Interprets an answer of a registry: its status, and the `error_code` and `message` of its JSON.

Only 404 with a code 404xx says that there is no such schema. A 404 without it comes from a proxy, or from a URL that is
no registry's: a query must not take that for the fault of its records.
"""

from __future__ import annotations

import http.client
from typing import NoReturn

from kafkasource.errors import (
    RegistryAccessRefused,
    RegistryError,
    SchemaIncompatible,
    SchemaNotFound,
    SchemaRefused,
)
from kafkasource.formats.bounds import bounded_json
from kafkasource.kafka.security.exchange import HttpAnswer
from kafkasource.kafka.security.quoting import printable

_RETRIABLE_4XX = (408, 425, 429)
_FINAL_5XX = (501, 505)
_MOST_ERROR_BYTES = 1 << 16  # of an answer that says an error
_MOST_QUOTED = 600  # characters of a registry's message: an incompatibility names fields


def is_retriable(status: int) -> bool:
    """Whether the same question may get another answer later."""
    return status in _RETRIABLE_4XX or (status >= 500 and status not in _FINAL_5XX)


def retry_after_s(answer: HttpAnswer) -> float:
    """The seconds of a header `Retry-After`; 0 without one, or where it is a date: clocks differ."""
    text = answer.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0


def status_text(status: int) -> str:
    """`503 Service Unavailable`."""
    return f"{status} {http.client.responses.get(status, '')}".strip()


def json_of(answer: HttpAnswer, question: str, url: str) -> object:
    """The JSON of an answer that the registry means; errors for all others. `url`: for errors."""
    if answer.status not in (200, 201):
        _refuse(answer, question, url)
    try:
        found: object = bounded_json(answer.body.decode())
    except ValueError as error:
        raise RegistryError(
            f"{url} answers {question} with what is not usable JSON: {str(error)[:100]}. Check that "
            "schemaRegistry.url is that of a registry with Confluent's API (Apicurio: .../apis/ccompat/v7)",
            url,
            answer.status,
        ) from None
    return found


def _refuse(answer: HttpAnswer, question: str, url: str) -> NoReturn:
    status = answer.status
    code, message = _said(answer.body)
    said = f"{url} answers {question} with {status_text(status)}"
    if code is not None:
        said += f" (error_code {code})"
    if message:
        said += f": {message}"
    if 300 <= status < 400:
        raise RegistryError(
            f"{said}: it sends the client elsewhere, and redirects are not followed, as credentials go with a request. "
            "Put the registry's own address into schemaRegistry.url",
            url,
            status,
        )
    if status == 401:
        raise RegistryAccessRefused(
            f"{said}. Check schemaRegistry.basic.auth.user.info, or the options schemaRegistry.bearer.auth.*",
            url,
            status,
            code,
        )
    if status == 403:
        raise RegistryAccessRefused(f"{said}. The registry's user lacks a right: grant it", url, status, code)
    if status == 404 and code is not None and code // 100 == 404:
        raise SchemaNotFound(said, url, status, code)
    if status == 404:
        raise RegistryError(
            f"{said}. No registry answers in this way: check the path of schemaRegistry.url (Apicurio: "
            ".../apis/ccompat/v7)",
            url,
            status,
            code,
        )
    if status == 409:
        raise SchemaIncompatible(said, url, status, code)
    if status == 422:
        raise SchemaRefused(said, url, status, code)
    raise RegistryError(said, url, status, code)


def _said(body: bytes) -> tuple[int | None, str]:
    """The registry's own code and message. A body that has no code is not quoted: nobody knows what it holds."""
    try:
        found = bounded_json(body[:_MOST_ERROR_BYTES].decode())
        code, message = found["error_code"], found.get("message")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None, ""
    if not isinstance(code, int) or isinstance(code, bool):
        return None, ""
    return code, printable(message.strip(), _MOST_QUOTED) if isinstance(message, str) else ""
