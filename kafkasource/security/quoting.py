"""How an error quotes what others have sent, and places that may have a password in them."""

from __future__ import annotations

import re

# A secret key of S3 may have slashes that nobody has encoded, so it ends at the word's last @.
_PASSWORD = re.compile(r"(://[^/@:\s]*):\S*@")


def printable(text: str, most: int = 120) -> str:
    """What a broker or an endpoint has sent, as an error may quote it: ASCII without controls, cut."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text[: most + 1])
    return plain if len(plain) <= most else plain[:most] + "..."


def without_password(text: str) -> str:
    """A location, or a message that quotes one, without the secret of `s3a://KEY:SECRET@bucket/folder`. A container's
    name (`wasbs://container@account/folder`) stays."""
    return _PASSWORD.sub(r"\1:[hidden]@", text)
