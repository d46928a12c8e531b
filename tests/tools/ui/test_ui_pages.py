"""Promises of the page to its reader's eyes and keyboard. A browser measures scripted answers, without a broker."""

import base64
import itertools
import threading

import chromium
import pytest

from kafkasource.errors import KafkaSourceError

LONG = "eu-west-1.customer-data-platform.orders.enriched.with-shipping-and-invoices." * 3
TIME_MS = 1_700_000_000_000  # `date -u -d @1700000000`: 2023-11-14 22:13:20
SHOWN_ROWS = 500  # of 10,000 topics
WIDEST_KEY = 36  # characters: a UUID
LEAST_CONTRAST = 3  # WCAG 2.2, success criterion 1.4.11: of what shows where a field is


def part(data):
    return None if data is None else {"size": len(data), "base64": base64.b64encode(data).decode()}


def record(offset, key, value=b'{"a": "%s"}' % (b"x" * 400)):
    made = {"partition": 0, "offset": offset, "timestamp": TIME_MS, "key": part(key), "value": part(value)}
    return {**made, "headers": [], "header_count": 0}


def records(*keys):
    shown = [record(offset, key) for offset, key in enumerate(keys)]
    return {"records": shown, "older": {}, "newer": {"0": 9}, "examined": 9, "limited": False, "oldest": True}


def topic(name, health="ok"):
    totals = {"topic": name, "internal": False, "partitions": 12, "replication": 3, "offsets": 48_123_456_789}
    log = {"partition": 0, "leader": 1, "replicas": [1, 2, 3], "in_sync_replicas": [1], "earliest": 0, "latest": 9}
    settings = [{"name": "message.timestamp.before.max.ms", "value": "9223372036854775807", "source": "default"}]
    more = {"logs": [{**log, "bytes": 7}], "settings": settings, "settings_unknown": None, "topic_id": None}
    return {**totals, **more, "bytes": 1 << 40, "health": health, "size_unknown": None}


def topics(*names):
    return {"topics": [topic(name) for name in names], "size_unknown": None}


def group():
    member = {"member": LONG, "instance": None, "client": LONG, "host": "10.20.30.40"}
    at = {"topic": LONG, "partition": 0, "offset": 1_234_567, "latest": 2_345_678, "lag": 9, "member": LONG}
    about = {"group": LONG, "state": "Stable", "lag": 9, "assignor": "range"}
    return {**about, "partitions": [{**at, "why_unknown": None}], "members": [member]}


def transaction():
    of_it = {"transactional_id": LONG, "state": "Ongoing", "producer_id": 123_456_789_012, "producer_epoch": 7}
    return {**of_it, "open_for_s": 4000.0, "timeout_s": 60.0, "partitions": [f"{LONG}-{n}" for n in range(4)]}


ANSWERS = {
    "/api/cluster": {"bootstrap": ["kafka-1:9092", "kafka-2:9092"], "cluster_id": "c", "brokers": [{}], "writes": True},
    "/api/topics": topics("orders", LONG),
    "/api/topic": topic(LONG, "12 of 12 partitions under-replicated"),
    "/api/records": records(LONG.encode(), None, b"\x00\x01", b"", "ключ".encode()),
    "/api/groups": {
        "groups": [
            {
                "group": LONG,
                "state": None,
                "members": 0,
                "type": "classic",
                "protocol": "",
                "coordinator": 1,
                "error": LONG,
            }
        ],
        "unreachable": [2],
    },
    "/api/group": group(),
    "/api/transactions": {"transactions": [transaction()], "unreachable": [], "more": 0},
}
VIEWS = [
    {"view": "topics"},
    *({"view": "topic", "name": "t", "tab": tab} for tab in ("records", "partitions", "settings", "change")),
    *({"view": "create"}, {"view": "groups"}, {"view": "group", "name": "g"}, {"view": "transactions"}),
]
A_TOPIC = {"view": "topic", "name": "orders"}


@pytest.fixture
def desk(browser):
    browser.errors.clear()
    yield browser
    browser.look()


@pytest.fixture
def phone(browser):
    browser.look(chromium.PHONE)
    yield browser
    browser.look()


def texts(browser, selector):
    return browser.run(f"[...document.querySelectorAll({selector!r})].map(each => each.innerText)")


def test_the_columns_of_records_have_heads_and_the_times_have_a_zone(scripted, desk):
    desk.open(scripted(ANSWERS).page(**A_TOPIC))
    assert texts(desk, ".heads > *") == ["Partition : offset", "Time, UTC", "Key", "Value"]
    assert desk.text(".record .time") == "2023-11-14 22:13:20.000"
    lefts = "[...document.querySelector('{}').children].map(each => each.getBoundingClientRect().left)"
    assert desk.run(lefts.format(".heads")) == desk.run(lefts.format(".record > summary"))


@pytest.mark.parametrize(
    ("keys", "characters"),
    [([None, b""], 5), ([b"customer-4711", None], 13), (["ключ".encode()], 8), ([b"k" * 400, b"k"], WIDEST_KEY)],
    ids=["none", "short", "not ASCII", "long"],
)
def test_values_have_the_room_that_keys_leave(scripted, desk, keys, characters):
    desk.open(scripted({**ANSWERS, "/api/records": records(*keys)}).page(**A_TOPIC))
    width = "document.querySelector('.record .{}').getBoundingClientRect().width"
    key, value = desk.run(width.format("key")), desk.run(width.format("value"))
    desk.run("document.querySelector('.record .key').replaceChildren('0'.repeat(100))")
    digit_width = desk.run("document.querySelector('.record .key').scrollWidth / 100")
    assert key == pytest.approx(characters * digit_width, abs=2)
    taken = desk.run("document.querySelector('.record .value').getBoundingClientRect().left")
    assert value == pytest.approx(
        chromium.DESK[0] - taken - 20 - 1 - 18, abs=1
    )  # the margin, border, padding of a card


@pytest.mark.parametrize("view", [A_TOPIC, {"view": "group", "name": "g"}, {"view": "topics"}], ids=lambda v: v["view"])
def test_fields_that_stand_in_one_line_have_one_height(scripted, desk, view):
    desk.open(scripted({**ANSWERS, "/api/group": {**group(), "members": []}}).page(**view))
    of_fields = "[...document.querySelectorAll('#view .fields :is(input:not([type=checkbox]), select, button.main)')]"
    boxes = f"{of_fields}.map(each => each.getBoundingClientRect()).map(each => `${{each.top}} ${{each.height}}`)"
    assert len(set(desk.run(boxes))) == 1
    labels = "[...document.querySelectorAll('#view .fields label:not(.check)')].map(each => each.offsetTop)"
    assert len(set(desk.run(labels))) == 1


def test_the_header_and_the_title_say_which_cluster_it_is(scripted, desk):
    desk.open(scripted(ANSWERS).page(**A_TOPIC))
    assert desk.text("#summary") == "kafka-1:9092 and 1 more · 1 broker · cluster c"
    assert desk.run("document.title") == "orders · kafka-1:9092 and 1 more · kafkasource"


def test_what_takes_long_is_said_to_be_loading(scripted, desk):
    goes_on = threading.Event()

    def slow(_):
        goes_on.wait(60)
        return topics("orders")

    served = scripted({**ANSWERS, "/api/topics": slow})
    seen = "getComputedStyle(document.getElementById('loading')).visibility"
    desk.open(served.page(view="groups"))
    assert desk.run(seen) == "hidden"
    desk.click("#nav a")
    try:
        desk.wait(f"{seen} === 'visible'")
        assert desk.run("document.getElementById('loading').role") == "status"
    finally:
        goes_on.set()
    desk.wait("document.body.dataset.loaded === 'yes'")
    assert desk.run(seen) == "hidden"


def test_refresh_asks_again_for_what_is_shown(scripted, desk):
    numbers = itertools.count(1)
    answer = {**ANSWERS, "/api/topics": lambda _: topics("other", f"orders-{next(numbers)}")}
    desk.open(scripted(answer).page(view="topics"))
    desk.type("input[name=find]", "ORDERS")
    assert texts(desk, "#view tbody a") == ["orders-1"]
    desk.run("document.getElementById('refresh').focus()")
    desk.click("#refresh")
    desk.wait("document.querySelector('#view tbody').innerText.includes('orders-2')")
    assert texts(desk, "#view tbody a") == ["orders-2"]
    assert desk.run("document.activeElement.id") == "refresh"


def test_of_10_000_topics_the_first_are_shown_and_the_others_are_found(scripted, desk):
    desk.open(scripted({**ANSWERS, "/api/topics": topics(*(f"t-{n:05}" for n in range(10_000)))}).page(view="topics"))
    assert len(texts(desk, "#view tbody a")) == SHOWN_ROWS
    assert "and 9,500 more" in desk.text("#view")
    desk.type("input[name=find]", "t-0999")
    assert texts(desk, "#view tbody a") == [f"t-0999{n}" for n in range(10)]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.get("tab") or view["view"])
def test_a_phone_shows_all_cells_with_their_heads_and_scrolls_down_only(scripted, phone, view):
    phone.open(scripted(ANSWERS).page(**view))
    assert phone.run("document.documentElement.scrollWidth") <= chromium.PHONE[0]
    beyond = (
        "[...document.querySelectorAll('#view *, header *')].filter(each => each.getBoundingClientRect().right > 390)"
    )
    inside = f"{beyond}.filter(each => !each.closest('.record > summary, pre')).map(each => each.outerHTML)"
    assert phone.run(inside) == []
    head = "each => getComputedStyle(each, '::before').content.replace(/\"/g, '').trim()"
    for row in phone.run("[...document.querySelectorAll('#view table')].map((_, n) => n)"):
        table = f"document.querySelectorAll('#view table')[{row}]"
        heads = phone.run(f"[...{table}.querySelectorAll('th')].map(each => each.textContent)")
        assert phone.run(f"[...{table}.querySelectorAll('tbody tr:first-child td')].slice(1).map({head})") == heads[1:]
        assert phone.run(f"[...{table}.querySelectorAll('td')].every(each => each.checkVisibility())")


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.get("tab") or view["view"])
def test_all_that_can_be_used_has_a_name_for_screen_readers(scripted, desk, view):
    desk.open(scripted(ANSWERS).page(**view))
    used = {"button", "textbox", "searchbox", "combobox", "checkbox", "link", "navigation"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value"))
        for node in desk.send("Accessibility.getFullAXTree")["nodes"]
        if not node["ignored"] and node["role"]["value"] in used
    ]
    assert ("navigation", "Pages") in named
    assert [role for role, name in named if not name] == []


def test_the_keyboard_opens_a_record_and_goes_on_in_the_view_that_a_link_opened(scripted, desk):
    desk.open(scripted(ANSWERS).page(view="topics"))
    desk.run("document.querySelector('#view tbody a').focus()")
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    desk.send("Input.dispatchKeyEvent", type="keyDown", **enter)
    desk.wait("document.querySelector('.record') !== null && document.body.dataset.loaded === 'yes'")
    assert desk.run("document.activeElement.id") == "view"
    desk.run("document.querySelector('.record > summary').focus()")
    desk.send("Input.dispatchKeyEvent", type="keyDown", **enter)
    desk.wait("document.querySelector('.record[open] pre') !== null")


def test_a_wrong_place_leaves_the_form_in_which_it_is_corrected(scripted, desk):
    def refuse(_):
        raise KafkaSourceError("from: 'yesterday' is no place")

    desk.open(scripted({**ANSWERS, "/api/records": refuse}).page(**A_TOPIC, **{"from": "yesterday"}))
    assert desk.text("[role=alert]:not([hidden])") == "from: 'yesterday' is no place"
    assert desk.run("document.querySelector('input[name=from]').value") == "yesterday"


def test_when_the_brokers_are_gone_the_page_says_what_is_old_and_can_ask_again(scripted, desk):
    gone = False

    def found(_):
        if gone:
            raise KafkaSourceError("no broker answers")
        return topics("orders")

    desk.open(scripted({**ANSWERS, "/api/topics": found}).page(view="topics"))
    gone = True
    desk.click("#refresh")
    desk.wait("!document.getElementById('problem').hidden")
    assert desk.text("#problem") == "no broker answers; what is shown is old"
    assert texts(desk, "#view tbody a") == ["orders"]
    desk.click("#nav a:nth-child(2)")
    desk.wait("document.querySelector('#view h2').innerText === 'Groups'")
    desk.click("#nav a")
    desk.wait("document.body.dataset.loaded === 'yes' && !document.getElementById('problem').hidden")
    assert desk.text("#problem") == "no broker answers"
    assert desk.text("#view") == ""
    gone = False
    desk.click("#refresh")
    desk.wait("document.querySelector('#view tbody') !== null")
    assert desk.run("document.getElementById('problem').hidden")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_border_of_a_field_can_be_seen(scripted, desk, dark):
    desk.look(dark=dark)
    desk.open(scripted(ANSWERS).page(**A_TOPIC))
    border, card = desk.run(
        "[getComputedStyle(document.querySelector('input')).borderTopColor,"
        " getComputedStyle(document.querySelector('.card')).backgroundColor]"
        ".map(each => each.match(/\\d+/g).map(Number))"
    )
    lighter, darker = sorted((luminance(border), luminance(card)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= LEAST_CONTRAST


def luminance(color):
    """WCAG's relative luminance."""
    linear = [(c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4) for c in color[:3]]
    return sum(c * weight for c, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
