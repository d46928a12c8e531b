"""The look of the page of queries, as a browser measures it. Progress is made up."""

import chromium
import pytest
from spark_progress import progress

from kafkasource.metrics.snapshot import Snapshot
from kafkasource.tools.monitor.endpoint import MetricsServer
from kafkasource.tools.monitor.queries import Queries
from kafkasource.tools.web.serving import Listening

BEGAN = 1_700_000_000.0  # `date -u -d @1700000000`: 2023-11-14 22:13:20
PARTITIONS = 20  # more than the page shows at once
DAY_S = 86_400


@pytest.fixture
def served():
    """`served(times, name) -> (Endpoint, Queries)`: one query whose batches ended at these times."""
    made, now = [], [BEGAN]

    def serve(*times, name="orders"):
        queries = Queries("prod", clock=lambda: now[0])
        queries.started("query-1", "run-1", name)
        for batch, time_s in enumerate(times):
            now[0] = time_s
            end, latest = dict.fromkeys(range(PARTITIONS), batch * 100), dict.fromkeys(range(PARTITIONS), 120_000)
            queries.progressed(progress(batch, time_s, end, latest, rows=2000, name=name, rates=(20.5, 1234.5)))
        written = {("kafkasource_records_written_total", (name, "t")): 12_345}
        made.append(MetricsServer(Listening(), lambda: Snapshot("", 0, written, {}, {}), queries))
        return made[-1], queries

    yield serve
    for each in made:
        each.close()


@pytest.fixture
def page(browser):
    browser.errors.clear()
    yield browser
    browser.look()


def texts(page, selector):
    return page.run(f"[...document.querySelectorAll({selector!r})].map(each => each.innerText)")


def test_times_show_their_zone_and_where_it_is_not_one_day_their_day(served, page):
    endpoint, _ = served(BEGAN, BEGAN + 90)
    page.open(endpoint.url + "/")
    assert texts(page, ".head .soft") == ["batch 1, as of 22:14:50 UTC"]
    assert texts(page, ".x") == ["22:13:20\n22:14:50 UTC"] * 2
    assert page.run("document.querySelector('svg').getAttribute('aria-label')") == (
        "Lag, offsets: 2,400,000 at 22:13:20, 2,398,000 at 22:14:50 UTC"
    )
    endpoint, _ = served(BEGAN, BEGAN + DAY_S)
    page.open(endpoint.url + "/")
    assert texts(page, ".x") == ["2023-11-14 22:13:20\n2023-11-15 22:13:20 UTC"] * 2


def test_labels_of_an_axis_are_no_narrower_on_a_phone(served, page):
    endpoint, _ = served(BEGAN, BEGAN + 90)
    widths = {}
    for size in (chromium.DESK, chromium.PHONE):
        page.look(size)
        page.open(endpoint.url + "/")
        page.wait("document.querySelectorAll('.plot span').length === 10")
        spans = "[...document.querySelectorAll('.plot span')].map(each => each.getBoundingClientRect().width)"
        widths[size] = page.run(spans)
        assert page.run("document.querySelectorAll('svg text').length") == 0  # they would be stretched
    assert widths[chromium.PHONE] == pytest.approx(widths[chromium.DESK], abs=0.1)


def test_a_phone_shows_all_cells_with_their_heads_and_scrolls_down_only(served, page):
    endpoint, _ = served(BEGAN, BEGAN + 90, name="a-name-without-any-place-to-break-it-" * 4)
    page.look(chromium.PHONE)
    page.open(endpoint.url + "/")
    assert page.run("document.documentElement.scrollWidth") <= chromium.PHONE[0]
    assert (
        page.run("[...document.querySelectorAll('td')].filter(each => each.getBoundingClientRect().right > 390)") == []
    )
    head = "each => getComputedStyle(each, '::before').content.replace(/\"/g, '').trim()"
    cells = page.run(f"[...document.querySelectorAll('#queries tr:first-child td')].map({head})")
    assert cells[1:] == ["Offset", "End of log", "Lag", "Lag, time"]


def test_while_nothing_changes_nothing_is_drawn_again_and_the_focus_stays(served, page):
    endpoint, queries = served(BEGAN, BEGAN + 90)
    page.open(endpoint.url + "/")
    page.run("document.querySelector('#queries button').focus()")
    page.click("#queries button")
    page.wait(f"document.querySelectorAll('#queries tbody tr').length === {PARTITIONS}")
    assert page.run("document.activeElement.innerText") == "Show fewer"
    page.run("window.card = document.querySelector('[data-query]')")
    page.run("refresh()")
    assert page.run("window.card.isConnected")
    queries.ended("query-1", None)
    page.run("refresh()")
    assert not page.run("window.card.isConnected")
    assert texts(page, ".state") == ["ended"]
    assert page.run("document.activeElement.innerText") == "Show fewer"


def test_before_its_first_progress_a_query_has_no_numbers_and_no_empty_charts(served, page):
    endpoint, _ = served()
    page.open(endpoint.url + "/")
    assert texts(page, "[data-field=lag]") == ["–"]
    assert page.run("document.querySelectorAll('svg').length") == 0
    assert "charts come with the second micro-batch" in page.text()


def test_a_driver_that_is_gone_is_said_and_what_is_shown_stays(served, page):
    endpoint, _ = served(BEGAN, BEGAN + 90)
    page.open(endpoint.url + "/")
    assert page.errors == []
    endpoint.close()
    page.run("refresh()")
    assert "what is shown is old" in page.text("#summary")
    assert texts(page, "h2") == ["orders", "Written"]
