"""The server of the page: answers each path with the page, its files, or its data as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import indexes_by_topic
from kafkasource.options import Options
from kafkasource.reader import Reader
from kafkasource.source.plan.positions import Position
from kafkasource.tools.admin.groups import all_groups
from kafkasource.tools.admin.groups import as_json as as_json_of_group
from kafkasource.tools.admin.lag import of_group
from kafkasource.tools.admin.topics import bounds_of, check_partitions, existing
from kafkasource.tools.ui import parameters, topics, transactions
from kafkasource.tools.ui.browsing import MOST_RECORDS, Browser, Limits, RecordPage, RecordSearch
from kafkasource.tools.ui.changes import Document, MakeOptions, PageChanges, document
from kafkasource.tools.web.access import ServerKind
from kafkasource.tools.web.handler import HTML, HttpResponse, Request, RequestRefused, as_json, as_text
from kafkasource.tools.web.serving import Listening, Serving, file_of
from kafkasource.types import TopicPartition

_MOST_AT_ONCE = 2  # requests for records: each may hold the bytes of a few fetches
_FILES = {
    "common.css": "text/css; charset=utf-8",
    "common.js": "text/javascript; charset=utf-8",
    "ui.css": "text/css; charset=utf-8",
    "bytes.js": "text/javascript; charset=utf-8",
    "ui.js": "text/javascript; charset=utf-8",
}


class UiServer(Serving):
    """`cluster` is the caller's, and any thread may use it."""

    kind = ServerKind(
        "pykafka ui",
        "KAFKASOURCE_UI",
        "--allow-host or KAFKASOURCE_UI_HOSTS",
        "the file of --token-file, --token, or KAFKASOURCE_UI_TOKEN",
        "kafkasource-ui",
        policy="default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        open_paths=frozenset({"/", *(f"/{name}" for name in _FILES)}),
    )

    def __init__(
        self,
        at: Listening,
        cluster: Cluster,
        read_options: MakeOptions,
        write_options: MakeOptions | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`write_options`: None, so nothing can be changed."""
        self._cluster = cluster
        self._read_options = read_options
        self._limits = limits or Limits()
        self._browsing = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._paths: dict[str, Callable[[Mapping[str, str]], object]] = {
            "/api/cluster": lambda _: {**topics.brokers(self._cluster), "writes": write_options is not None},
            "/api/topics": lambda _: topics.all_topics(self._cluster),
            "/api/topic": lambda given: topics.one_topic(self._cluster, parameters.required(given, "name")),
            "/api/records": self._records,
            "/api/groups": lambda _: _groups(self._cluster),
            "/api/group": lambda given: as_json_of_group(of_group(self._cluster, parameters.required(given, "name"))),
            "/api/transactions": lambda _: transactions.open_ones(self._cluster),
        }
        self._changes: dict[str, Callable[[Document], object]] = {}
        if write_options is not None:
            changes = PageChanges(cluster, read_options, write_options)
            self._changes = {
                "/api/produce": changes.produce,
                "/api/offsets/plan": changes.plan_offsets,
                "/api/offsets/set": changes.set_offsets,
                "/api/topic/create": changes.create_topic,
                "/api/topic/delete": changes.delete_topic,
            }
        self.takes_posts = write_options is not None
        super().__init__(at)

    def answer(self, request: Request) -> HttpResponse:
        name = request.path.removeprefix("/")
        if request.path == "/":
            return HttpResponse(200, HTML, file_of("ui", "page.html").encode())
        if name in _FILES:
            room = "web" if name.startswith("common.") else "ui"
            return HttpResponse(200, _FILES[name], file_of(room, name).encode())
        known: Mapping[str, object] = self._paths if request.body is None else self._changes
        if request.path not in known:
            return as_text("there is /; the docstring of kafkasource.tools.ui names the paths below /api", 404)
        try:
            if request.body is None:
                return as_json(self._paths[request.path](request.query))
            return as_json(self._changes[request.path](document(request.body)))
        except RequestRefused:
            raise
        except OptionError as error:
            raise RequestRefused(400, str(error)) from error
        except KafkaSourceError as error:
            raise RequestRefused(502, str(error)) from error

    def _records(self, given: Mapping[str, str]) -> Mapping[str, object]:
        topic = parameters.required(given, "topic")
        count = parameters.whole_number(given, "count", 50, MOST_RECORDS)
        key = given.get("key")
        wanted = RecordSearch(
            count, None if key is None else key.encode("utf-8", "replace"), given.get("match") != "part"
        )
        older, newer = parameters.cursor(given, "older"), parameters.cursor(given, "newer")
        numbers = parameters.partition_numbers(given, "partitions")
        start = parameters.place(given["from"]) if given.get("from") and older is None and newer is None else None
        known = existing(self._cluster, [topic])[topic]
        check_partitions(known, numbers)
        partitions = [tp for tp in known.topic_partitions if not numbers or tp.partition in numbers]
        options = self._read_options(
            {"assign": _assign(partitions), "includeHeaders": "true", "failOnDataLoss": "false"}
        )
        ends = bounds_of(self._cluster, [known], options["kafka.isolation.level"])  # where the reader's logs end
        with self._browser(options, start, wanted) as browser:
            page = browser.forward(newer) if start is not None or newer is not None else browser.back(older)
        for tp in partitions:  # where a partition had nothing to read, newer records come behind its end
            page.newer.setdefault(tp.partition, ends[tp].latest or 0)
        return _as_json(page)

    @contextmanager
    def _browser(self, options: Options, start: Position | None, wanted: RecordSearch) -> Iterator[Browser]:
        if not self._browsing.acquire(timeout=self._limits.seconds):
            raise RequestRefused(503, f"{_MOST_AT_ONCE} other requests for records are under way: try again")
        try:
            with Reader(options, start=start) as reader:
                yield Browser(reader, wanted, self._limits)
        finally:
            self._browsing.release()


def _groups(cluster: Cluster) -> dict[str, object]:
    groups = all_groups(cluster)
    return {"groups": [line.as_json() for line in groups.lines], "unreachable": sorted(groups.unreachable)}


def _assign(partitions: Iterable[TopicPartition]) -> str:
    return json.dumps(indexes_by_topic(partitions))


def _as_json(page: RecordPage) -> dict[str, object]:
    return {
        "records": page.records,
        "older": page.older,
        "newer": page.newer,
        "examined": page.examined,
        "limited": page.limited,
        "oldest": page.oldest,
    }
