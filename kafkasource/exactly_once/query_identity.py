"""The identity of a query under exactly once: the prefix of its transactional ids, and the id that Spark gave it.

The option `transactionalIdPrefix` is the user's own identity for the query. Without it the prefix is made of Spark's
query id. Spark writes that id into the file `metadata` of the checkpoint before the first micro-batch, and it stays the
same for as long as the checkpoint lives. So the prefix depends neither on how the checkpoint's location is spelled nor
on the host.

The file is read where a batch begins (`find`), never earlier: Spark makes writers before the file is there. Where it
cannot be read that is an error. There is no other identity to fall back to: two starts of a query must not differ.

A location means what it means to Hadoop's Path: the text after scheme and authority is taken literally (%20 is three
characters), repeated slashes are one, and . and .. are resolved.
"""

from __future__ import annotations

import json
import posixpath
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.kafka.security.quoting import without_password

if TYPE_CHECKING:
    from pyarrow import fs

READ_WITHIN_S = 30.0  # of another filesystem than this machine's; its clients may try again for minutes
LOOK_WITHIN_S = 5.0  # the same, where the id is not indispensable

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_PYARROWS_SCHEME = {"s3a": "s3", "s3n": "s3"}
_METADATA_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """The identity that begin found. It holds for one batch."""

    ids: TransactionalIds
    query_id: str | None = None  # as the checkpoint says; None: not asked, as the prefix was given
    location: str | None = None  # of the checkpoint, where it may be asked

    def of_cluster(self, name: str) -> QueryIdentity:
        """The identity in one of several clusters. Each has its own task transactions and decision."""
        return replace(self, ids=TransactionalIds(f"{self.ids.prefix}-{name}"))

    def unless(self, query_id: str) -> str | None:
        """The query's id, unless it is this one, or nobody knows. May read the checkpoint: a prefix that was given does
        not tell, and the sink needs the id only where another query may have decided under it. Blocks, for some seconds
        at most. A checkpoint that cannot be read here is not read again: then the tasks compare the ids.
        """
        own, accepted = self.query_id, _accepted.get()
        if own is None and self.location is not None and accepted.get(self.ids.prefix) != query_id:
            try:
                own = read_query_id(self.location, LOOK_WITHIN_S)
            except OptionError:
                own = None
            if own in (None, query_id):
                accepted.put(self.ids.prefix, query_id)
        return None if own == query_id else own


# The query id for each prefix that `unless` need not ask about.
_accepted: PerProcess[Recent[str, str]] = PerProcess(lambda: Recent(1_000))


@dataclass(frozen=True, slots=True)
class IdentitySource:
    """The identity as the options give it; nothing is read yet. Part of the pickled writer."""

    prefix: str | None = None
    location: str | None = None

    @classmethod
    def of(cls, prefix: str | None, sparks_own: Mapping[str, str], *, batch_write: bool = False) -> IdentitySource:
        """From `transactionalIdPrefix`, else `checkpointLocation`. Raises OptionError where there is neither."""
        location = None if batch_write else sparks_own.get("checkpointlocation")
        if prefix is None and not location:
            raise OptionError(
                "option 'deliveryGuarantee'=exactly_once needs transactional ids that stay the same over restarts: "
                "give the sink the option 'checkpointLocation' (not only the session's configuration), or "
                "'transactionalIdPrefix', which a batch write always needs"
            )
        return cls(prefix, location)

    def find(self) -> QueryIdentity:
        """Reads the checkpoint unless the prefix was given. Blocks. Raises OptionError."""
        if self.prefix is not None:
            return QueryIdentity(TransactionalIds(self.prefix), location=self.location)
        assert self.location is not None
        query_id = read_query_id(self.location)
        return QueryIdentity(TransactionalIds(f"kafkasource-{query_id}"), query_id)


def read_query_id(location: str, within_s: float | None = None) -> str:
    """The id of the query whose checkpoint lies there. Blocks. Raises OptionError, which says what to do."""
    try:
        text = _read(location, READ_WITHIN_S if within_s is None else within_s)
    except FileNotFoundError:
        hint = ""
        if location_parts(location)[0] is None:
            hint = (
                " on this machine. A query writes it when it starts. If the checkpoint lies in Spark's default "
                "filesystem, give the full URI (hdfs://..., s3a://...)"
            )
        raise _unreadable(location, f"there is no file 'metadata'{hint}") from None
    except (OSError, ValueError, ImportError, TimeoutError) as error:
        first_line = str(error).partition("\n")[0]  # pyarrow lists each place where it looked for libjvm
        raise _unreadable(location, first_line or type(error).__name__) from None
    try:
        query_id = json.loads(text)["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        query_id = None
    if not isinstance(query_id, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", query_id):
        raise _unreadable(location, "its file 'metadata' is not of a streaming query")
    return query_id


def _unreadable(location: str, reason: str) -> OptionError:
    text = (
        f"option 'checkpointLocation': the query's id cannot be read from {location!r}: {reason}. "
        "'deliveryGuarantee'=exactly_once makes its transactional ids of it. Give the location as a URI that pyarrow "
        "reads here, or the option 'transactionalIdPrefix', which no other query may have"
    )
    return OptionError(without_password(text))  # pyarrow reads s3://KEY:SECRET@BUCKET, and its errors may quote it


def location_parts(location: str) -> tuple[str | None, str, str]:
    """Scheme in lower case, authority, and path, as Hadoop's Path takes them apart."""
    match = _URI.fullmatch(location)
    if match is None:
        return None, "", _normal(location)
    return match[1].lower(), match[2] or "", _normal(match[3])


def _normal(path: str) -> str:
    path = posixpath.normpath(path) if path else path
    return "/" + path.lstrip("/") if path.startswith("/") else path  # normpath keeps two slashes in front


def _read(location: str, within_s: float) -> bytes:
    scheme, authority, path = location_parts(location)
    if scheme == "dbfs":
        path = f"/dbfs{path}"
    if scheme in (None, "file", "dbfs"):
        with open(f"{path}/metadata", "rb") as file:
            return file.read(_METADATA_BYTES)
    assert scheme is not None
    return _within(within_s, lambda: _read_remote(_PYARROWS_SCHEME.get(scheme, scheme), authority, path))


def _read_remote(scheme: str, authority: str, path: str) -> bytes:
    filesystem, root = _filesystem(scheme, authority)
    with filesystem.open_input_stream(f"{root.rstrip('/')}{path}/metadata") as stream:
        return bytes(stream.read(_METADATA_BYTES))


# Cached by scheme and authority, because looking up a bucket's region takes a round trip.
_filesystems: PerProcess[Recent[tuple[str, str], fs.FileSystem]] = PerProcess(lambda: Recent(16))


def _filesystem(scheme: str, authority: str) -> fs.FileSystem:
    from pyarrow import fs

    known, key = _filesystems.get(), (scheme, authority)
    found = known.get(key)  # not `of`: what waits for a bucket here must not hold up the next question
    if found is None:
        found = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
        known.put(key, found)
    return found


def _within(seconds: float, read: Callable[[], bytes]) -> bytes:
    """Read in a thread of its own, left behind when the time is up (TimeoutError). Raises what `read` raises."""
    answer: list[bytes | BaseException] = []

    def run() -> None:
        try:
            answer.append(read())
        except BaseException as error:
            answer.append(error)

    thread = threading.Thread(target=run, name="kafkasource-checkpoint", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answer:
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    if isinstance(answer[0], BaseException):
        raise answer[0]
    return answer[0]
