r"""Bytes of records on a terminal. A value may hold anything, and a terminal obeys control bytes: it would change its
colours, its title or its keyboard. So a person sees them as `\x1b`; a pipe and a file get the bytes as they are."""

from __future__ import annotations

import re

# All but tab and line feed; DEL and the C1 controls; and what is not UTF-8 (as surrogateescape decodes it).
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")


def escaped(data: bytes) -> bytes:
    r"""Control characters and bytes that are no UTF-8 as `\xHH`."""
    return _CONTROL.sub(_as_hex, data.decode(errors="surrogateescape")).encode()


def escaped_text(text: str) -> str:
    r"""The same of a text, for messages: brokers and their users chose names in it."""
    return _CONTROL.sub(_as_hex, text)


def escaped_json(text: str) -> str:
    r"""The same JSON with the controls that JSON may hold as they are (DEL and C1) as `\u009b`."""
    return re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _as_hex(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code >= 0xDC80:
        code -= 0xDC00
    return "".join(f"\\x{byte:02x}" for byte in (chr(code).encode() if 0x80 <= ord(match[0]) < 0xA0 else bytes([code])))
