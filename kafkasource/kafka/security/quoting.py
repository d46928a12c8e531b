"""How an error quotes what others have sent, and places that may have a password in them."""

from __future__ import annotations

import re

from kafkasource.errors import escaped

# A secret key of S3 may have slashes that nobody has encoded, so it ends at the word's last @.
_PASSWORD = re.compile(r"(://[^/@:\s]*):\S*@")


def printable(text: str, most: int = 120) -> str:
    """Quote what a broker or an endpoint has sent: one line, its first `most` characters."""
    return escaped(text[:most], keep="") + ("..." if len(text) > most else "")


def without_password(text: str) -> str:
    """A location, or a message that quotes one, without the secret of `s3a://KEY:SECRET@bucket/folder`. A container's
    name (`wasbs://container@account/folder`) stays."""
    return _PASSWORD.sub(r"\1:[hidden]@", text)
