"""How an error quotes what others have sent."""

from __future__ import annotations


def printable(text: str, most: int = 120) -> str:
    """What a broker or an endpoint has sent, as an error may quote it: ASCII without controls, cut."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text[: most + 1])
    return plain if len(plain) <= most else plain[:most] + "..."
