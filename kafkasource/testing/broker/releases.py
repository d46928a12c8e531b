"""The releases of Kafka that `Broker` can run, and the release that brought each way to secure a listener."""

from __future__ import annotations

import re

from kafkasource.errors import OptionError

DEFAULT_VERSION = "4.3.1"

OLDEST = (0, 8, 2)
KRAFT = (3, 3)  # the first release whose KRaft is for production

# The release that brought it. Kafka 0.8 has PLAINTEXT only.
SINCE = {
    "SSL": (0, 9),
    "SASL_PLAINTEXT": (0, 9),
    "SASL_SSL": (0, 9),
    "GSSAPI": (0, 9),
    "PLAIN": (0, 10),
    "SCRAM-SHA-256": (0, 10, 2),
    "SCRAM-SHA-512": (0, 10, 2),
    "ACLs by CreateAcls": (0, 11),  # before: written into ZooKeeper by Kafka's own tool
    "several secured listeners": (1, 1),  # before: no properties for one listener (KIP-226)
    "re-authentication": (2, 2),
    "OAUTHBEARER": (2, 0),
}


def release_of(version: str) -> tuple[int, ...]:
    """`4.3.1` as (4, 3, 1). Raises OptionError for a release that `Broker` cannot run."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+(?:\.\d+)?", version)
    if not match:
        raise OptionError(f"version={version!r}: expected a Kafka release such as {DEFAULT_VERSION}")
    release = tuple(map(int, version.split(".")))
    if release < OLDEST:
        raise OptionError(f"version={version!r}: Broker runs Kafka 0.8.2 and newer")
    if (2, 0) <= release < (2, 4):
        raise OptionError(f"version={version!r}: the ZooKeeper client of Kafka 2.0 to 2.3 fails on Java 14 and newer")
    return release


def is_legacy(release: tuple[int, ...]) -> bool:
    """Does `Broker` run this release with a ZooKeeper?"""
    return release < KRAFT


def require(release: tuple[int, ...], option: str, what: str) -> None:
    """Raise OptionError if this release is older than `what`, a name in SINCE. `option` is the user's, for the text."""
    since = SINCE[what]
    if release < since:
        version = ".".join(map(str, release))
        raise OptionError(f"{option}: Kafka {version} has no {what}, which came with {'.'.join(map(str, since))}")
