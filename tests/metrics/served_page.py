"""What a page of ours holds, as it stands in the document."""

import re
from html.parser import HTMLParser


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
