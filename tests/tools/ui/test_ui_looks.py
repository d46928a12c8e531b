"""The page at desk and phone width, light and dark: nothing is wider than the window, and all text can be read."""

from contextlib import closing

import chromium
import pytest
from confluent_kafka import Consumer, TopicPartition

pytestmark = pytest.mark.broker

LONG = "a-name-without-any-place-to-break-it-" * 4
LEAST_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3 (AA), for text of usual size

# The formulas are those of WCAG. Texts of elements that are not shown do not count, nor those of disabled buttons.
CONTRASTS = """
(() => {
  const parts = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = color => parts(color).slice(0, 3).map(each => each / 255)
    .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, n) => sum + each * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = element => {
    for (let each = element; each; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor, alpha = parts(color)[3] ?? 1;
      if (alpha === 1) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
    if (!own || !element.checkVisibility() || element.disabled || element.matches("script, noscript")) continue;
    const [a, b] = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), `${element.tagName}.${element.className}: ${element.textContent.trim()}`]);
  }
  return found.sort((x, y) => x[0] - y[0]);
})()
"""
OF_THE_GROUND = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"


@pytest.fixture
def pages(served, kafka_broker, kafka_topic, produce):
    """The state of each view in the address; names and values are long."""
    topic = kafka_topic(partitions=2)
    produce(
        topic, [{"value": b'{"text": "%s"}' % LONG.encode(), "key": LONG.encode(), "headers": [(LONG, b"\x00\x01")]}]
    )
    of_the_group = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": f"{topic}-{LONG}"}
    with closing(Consumer(of_the_group)) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    return {
        "topics": served.page(view="topics"),
        "topic": served.page(view="topic", name=topic),
        "groups": served.page(view="groups"),
        "group": served.page(view="group", name=f"{topic}-{LONG}"),
        "transactions": served.page(view="transactions"),
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [chromium.DESK, chromium.PHONE], ids=["desk", "phone"])
def test_each_view_fits_the_window_and_its_text_can_be_read(pages, browser, size, dark):
    browser.look(size, dark)
    try:
        for view, address in pages.items():
            browser.open(address)
            if view == "topic":
                browser.click(".record summary")
                browser.wait("document.querySelectorAll('.record pre').length >= 3")
            assert browser.run("document.documentElement.scrollWidth") <= size[0], view
            assert (sum(browser.run(OF_THE_GROUND)) < 3 * 64) == dark, view
            contrasts = browser.run(CONTRASTS)
            assert len(contrasts) > 3, view
            assert contrasts[0][0] >= LEAST_CONTRAST, (view, contrasts[:5])
    finally:
        browser.look()


def test_a_time_beyond_the_last_date_of_javascript_is_shown_in_milliseconds(served, browser):
    browser.open(served.page(view="topics"))
    last = 8_640_000_000_000_000  # ECMA-262, section 21.4.1.1
    assert browser.run(f"[{last}, {last + 1}].map(time)") == ["+275760-09-13 00:00:00.000", f"{last + 1} ms"]


def test_json_of_any_depth_is_shown_in_lines_that_do_not_grow_with_it(served, browser):
    browser.open(served.page(view="topics"))
    assert browser.run('prettyJson(`{"a": [1, {}]}`)') == '{\n  "a": [\n    1,\n    {}\n  ]\n}'
    lines = browser.run('prettyJson("[".repeat(50000) + "1" + "]".repeat(50000)).split("\\n")')
    assert len(lines) == 100_001
    assert max(map(len, lines)) <= 100
