"""The options of a schema registry, without their prefix `schemaRegistry.`: `formats.registry.settings` reads their
values.

Names are those of Confluent's clients, where these have them. The options of TLS are the brokers', with this prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafkasource.kafka.security.option import SECRET, TEXT, Option, RefusedOption, with_prefix
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tls import options as tls_options

PREFIX = "schemaRegistry."

_OWN = (
    Option(
        "url",
        TEXT,
        "The schema registry: `https://host:port`, with a path where it needs one (Apicurio:"
        " `http://host:8080/apis/ccompat/v7`). Several of them, separated by commas, are one registry: where one does"
        " not answer, the next is asked.",
    ),
    Option("basic.auth.user.info", SECRET, "`user:password` for the registry."),
    Option("bearer.auth.token", SECRET, "A token for the registry."),
    Option(
        "bearer.auth.issuer.endpoint.url",
        TEXT,
        "OAuth: the https URL of the token endpoint that gives tokens for the registry (client credentials grant).",
    ),
    Option("bearer.auth.client.id", TEXT, "OAuth: the client's id at the token endpoint."),
    Option("bearer.auth.client.secret", SECRET, "OAuth: the client's secret at the token endpoint."),
    Option("bearer.auth.scope", TEXT, "OAuth: the scope to ask the token endpoint for."),
    Option("bearer.auth.logical.cluster", TEXT, "Confluent Cloud: the registry's id (`lsrc-...`), beside a token."),
    Option("bearer.auth.identity.pool.id", TEXT, "Confluent Cloud: the identity pool (`pool-...`), beside a token."),
    Option(
        "https.ca.location",
        TEXT,
        "OAuth: a PEM file of the authorities that the token endpoint is trusted by. Default: those of the operating"
        " system.",
    ),
    Option(
        "http.connect.timeout.ms",
        TEXT,
        "How long a connection to the registry may take, TLS included.",
        implied="10000",
    ),
    Option("http.read.timeout.ms", TEXT, "How long the registry's whole answer may take.", implied="30000"),
    Option(
        "retry.timeout.ms",
        TEXT,
        "How long a registry is asked again while it gives no answer, or one of 5xx, 408, 429. Then the task or the"
        " query fails.",
        implied="120000",
    ),
    Option(
        "missing.id.cache.ttl.sec",
        TEXT,
        "How long a process believes a registry that says that it has no such id.",
        implied="30",
    ),
)

_TLS = tuple(
    replace(row, doc=f"As `kafka.{row.name}`, for the registry in place of the brokers.", differs="")
    for row in tls_options.ROWS
)

ROWS = (*_OWN, *_TLS)
BY_NAME = {row.name: row for row in ROWS}
ALIASES = tls_options.ALIASES
REFUSED = {
    "basic.auth.credentials.source": "`basic.auth.user.info` is all that is needed",
    "bearer.auth.credentials.source": "`bearer.auth.token`, or the options of OAuth, are all that is needed",
}

# Rows of the table of options. `formats.registry.settings` reads their values, which stay texts.
REGISTRY_OPTIONS = tuple(with_prefix(row, PREFIX, per_cluster=False) for row in ROWS)
REGISTRY_REFUSED = tuple(
    RefusedOption(f"{PREFIX}{name}", why) for name, why in {**REFUSED, **tls_options.REFUSED}.items()
)


def registry_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the registry's options that the user gave, without their prefix. Empty without a registry."""
    given = {row.name.removeprefix(PREFIX): options.get(row.name) for row in REGISTRY_OPTIONS}
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in given.items()
        if value is not None
    }
