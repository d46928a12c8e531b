"""The endpoint and the page, without Spark: queries whose progress is made up, metrics that this process counts."""

import json
import sys
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from served_page import number
from spark_progress import progress

from kafkasource.metrics.counting import ProcessCounts
from kafkasource.metrics.snapshot import added
from kafkasource.tools.monitor.endpoint import MetricsServer
from kafkasource.tools.monitor.queries import Queries
from kafkasource.tools.web.serving import Listening

BEGAN = 1_700_000_000.0
AWKWARD = 'a "quoted"\\name\n<b>'


@pytest.fixture
def served():
    now = [BEGAN]
    queries, counts = Queries("prod", clock=lambda: now[0]), ProcessCounts(publish=lambda _: None)
    for batch in range(30):
        now[0] = BEGAN + batch + 0.5
        end, latest = {0: batch * 100, 1: batch * 50}, {0: 5000 + batch * 10, 1: 1451}
        queries.progressed(progress(batch, BEGAN + batch, end, latest, rows=150, rates=(20.5, 1234.5)))
    queries.started("query-2", "run-2", AWKWARD)
    queries.started("query-3", "run-3", "broken")
    queries.ended("query-3", "it was <script>alert(1)</script>")
    counts.count("kafkasource_records_written_total", 12345, "east", "t")
    counts.count("kafkasource_records_discarded_total", 77, "west", AWKWARD, "0")
    for seconds in (0.002, 0.3, 99.0):
        counts.observe("kafkasource_produce_latency_seconds", seconds, "east")
    endpoint = MetricsServer(Listening(), lambda: added([counts.snapshot(), queries.snapshot()]), queries)
    yield endpoint
    endpoint.close()


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_prometheus_own_parser_reads_all_of_it(served):
    families = {one.name: one for one in text_string_to_metric_families(get(served.url + "/metrics"))}
    written = families["kafkasource_records_written"]
    assert (written.type, [(s.labels, s.value) for s in written.samples]) == (
        "counter",
        [({"cluster_name": "east", "topic": "t"}, 12345.0)],
    )
    assert families["kafkasource_records_discarded"].samples[0].labels["topic"] == AWKWARD
    latency = {
        (s.name.rsplit("_", 1)[1], s.labels.get("le")): s.value
        for s in families["kafkasource_produce_latency_seconds"].samples
    }
    assert latency["bucket", "0.001"] == 0
    assert latency["bucket", "0.5"] == 2
    assert latency["bucket", "+Inf"] == latency["count", None] == 3
    assert latency["sum", None] == pytest.approx(99.302)
    lags = {s.labels["partition"]: s.value for s in families["kafka_consumergroup_group_lag"].samples}
    assert lags == {"0": 5290 - 2900, "1": 1}


def test_the_page_shows_the_numbers_of_the_api(served, browse):
    page = browse(served.url + "/")
    queries = json.loads(get(served.url + "/api/queries"))
    assert {query["id"] for query in queries} == {"query-1", "query-2", "query-3"}
    for query in queries:
        lag = "–" if query["last_progress"] is None else f"{query['lag']:,}"
        assert page.tiles[query["id"], "lag"] == lag
        assert number(page.tiles[query["id"], "rows"]) == query["rows"]
    first = next(query for query in queries if query["id"] == "query-1")
    assert number(page.tiles["query-1", "input_rows_per_second"]) == pytest.approx(20.5, abs=0.5)
    assert number(page.tiles["query-1", "processed_rows_per_second"]) == pytest.approx(1234.5, abs=0.5)
    for one in first["partitions"]:
        row = next(row for row in page.rows if row and row[0] == f"{one['topic']}-{one['partition']}")
        assert [number(cell) for cell in row[1:4]] == [one["offset"], one["latest"], one["lag"]]
    assert ["east", "12,345"] in [row[:2] for row in page.rows]
    assert page.html.count('class="series"') == 3  # lag and two rates, of the only query with progress


def test_the_page_never_shows_a_number_for_a_lag_in_seconds_that_is_not_known(browse):
    now = [BEGAN]
    queries = Queries("prod", clock=lambda: now[0])
    latest = {0: 200_049, 1: 50}
    for query, sights in (("bound", (0, 12)), ("fresh", (0,)), ("read", (0,))):
        for second in sights:
            now[0] = BEGAN + second
            end = latest if query == "read" else {0: 0, 1: 50}
            queries.progressed(progress(second, now[0], end, latest, rows=1, query=query))
    endpoint = MetricsServer(Listening(), queries.snapshot, queries)
    try:
        page = browse(endpoint.url + "/")
    finally:
        endpoint.close()
    assert number(page.tiles["bound", "lag"]) == 200_049
    assert page.tiles["bound", "lag_seconds"] == "at least 12 s"
    assert page.tiles["fresh", "lag_seconds"] == "unknown"
    assert page.tiles["read", "lag_seconds"] == "0.0 s"
    assert page.html.count('class="tile unsure"') == 2
    assert ["t-0", "0", "200,049", "200,049", "at least 12 s"] in page.rows


def test_names_and_errors_are_text_on_the_page(served, browse):
    page = browse(served.url + "/")
    assert "<script>alert" not in page.html
    assert "&lt;script&gt;alert(1)" in page.html


def test_the_page_needs_nothing_from_elsewhere(served):
    html = get(served.url + "/")
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html
    assert 'src="' not in html


def test_sparks_last_progress_is_given_as_it_is(served):
    assert json.loads(get(served.url + "/api/queries/query-1"))["batchId"] == 29


def test_metrics_are_there_as_json_too(served):
    rows = json.loads(get(served.url + "/api/metrics"))
    assert {
        "name": "kafkasource_records_written_total",
        "labels": {"cluster_name": "east", "topic": "t"},
        "value": 12345,
    } in rows


def test_what_is_not_there_is_said(served):
    for path in ("/nothing", "/api/queries/none"):
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            get(served.url + path)
        refused.value.close()


def test_the_page_needs_no_prometheus_client(served, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "kafkasource.metrics.prometheus", raising=False)
    assert "kafkasource_records_written_total{" in get(served.url + "/metrics")


def test_a_port_that_is_taken_is_an_error(served):
    with pytest.raises(OSError, match="in use"):
        MetricsServer(Listening(port=served.port), lambda: added([]))
