r"""THE function that makes text safe to show: others choose names, and a terminal obeys what is in them.

A control character changes the terminal's colours, its title or its keyboard; U+202E turns the order of letters around;
U+200B hides in a name. So a person sees them as `\x1b` and `\u202e`.
"""

from __future__ import annotations

import json

_NOT_SHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, formats (order and width), half surrogate pairs, line ends


def escaped(text: str, keep: str = "\t\n") -> str:
    r"""The text with each character that a terminal does not show as one: `\x1b`; above U+001F as JSON has it,
    `\u202e`. Of bytes, decoded with surrogateescape, those that are no UTF-8 as `\x9b`."""
    if text.isprintable():
        return text
    from unicodedata import category  # most processes meet no such text

    return "".join(c if c in keep or category(c) not in _NOT_SHOWN else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return json.dumps(character)[1:-1]
