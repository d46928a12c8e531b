"""What others have written cannot drive a terminal, wherever it is shown."""

import json
import re
from pathlib import Path

import pytest

import kafkasource
from kafkasource.errors import escaped
from kafkasource.spark import logs

C1 = range(0x80, 0xA0)
BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))  # UAX 9, section 2
WIDTHLESS = (0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)


@pytest.mark.parametrize("code", [0x7F, *C1, *BIDI, *WIDTHLESS, 0x2028, 0x2029, 0xD800])
def test_what_a_terminal_obeys_or_hides_is_shown_as_its_code(code):
    assert escaped(f"a{chr(code)}b") == f"a\\u{code:04x}b"


@pytest.mark.parametrize("code", sorted({*range(0x20)} - {0x09, 0x0A}))
def test_a_control_character_is_shown_as_its_byte(code):
    assert escaped(f"a{chr(code)}b") == f"a\\x{code:02x}b"


def test_a_line_may_be_kept_to_one_line():
    assert escaped("a\tb\nc") == "a\tb\nc"
    assert escaped("a\tb\nc", keep="") == r"a\x09b\x0ac"


@pytest.mark.parametrize("text", ["größe", "東京\u3000都", "10\xa0€", "e\u0301", "✓ 👍🏽", "שלום", "a\\x1b"])
def test_what_people_write_stays(text):
    assert escaped(text) == text


def test_json_stays_the_same_json():
    value = "".join(map(chr, [0x1B, 0x7F, *C1, *BIDI, *WIDTHLESS, 0xE0041]))
    shown = escaped(json.dumps(value, ensure_ascii=False))
    assert shown.isascii()
    assert json.loads(shown) == value


def test_each_logger_of_the_package_escapes():
    """A filter holds for one logger, and for none below it."""
    found = set()
    for file in Path(kafkasource.__file__).parent.rglob("*.py"):
        found |= set(re.findall(r"getLogger\((.*?)\)", file.read_text()))
    others = {'"py4j"'}  # which the demo makes silent
    assert found - {"_name"} - others <= {'"kafkasource"', *(f'"kafkasource.{name}"' for name in logs.NAMES)}
