"""Readers of what the metrics server serves: Prometheus' own parser for samples, and one for the page."""

import re
import time
import urllib.request
from html.parser import HTMLParser

from prometheus_client.parser import text_string_to_metric_families


class Page(HTMLParser):
    """Tiles by query and field, cells of tables row by row, and texts: as they stand in the document."""

    def __init__(self, html):
        super().__init__()
        self.tiles, self.rows, self.html = {}, [], html
        self._query = self._field = None
        self._cell = False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "data-query" in attrs:
            self._query = attrs["data-query"]
        if "data-field" in attrs:
            self._field = attrs["data-field"]
        if tag == "tr":
            self.rows.append([])
        self._cell = tag in ("td", "th")

    def handle_endtag(self, tag):
        self._field = None
        self._cell = False

    def handle_data(self, data):
        if self._field:
            self.tiles[self._query, self._field] = data
        if self._cell:
            self.rows[-1].append(data)


def number(text):
    """`1,234` as the page writes it."""
    return int(re.sub(r"[,\s]", "", text))


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def samples(served):
    """The labels and values of the samples of each name, as Prometheus' own parser reads them."""
    found = {}
    for family in text_string_to_metric_families(get(served.url + "/metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def of_topic(found, name, topic):
    return sum(value for labels, value in found.get(name, ()) if labels["topic"] == topic)
