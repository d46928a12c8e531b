"""How clients of ours log in where a storm's brokers want it. Others use the brokers' own listener, which does not."""

from __future__ import annotations

import json
import os

ENVIRONMENT = "CAMPAIGN_LOGIN"  # options as JSON, `kafka.bootstrap.servers` among them
SESSION_MS = 4_000  # after which a client must have authenticated again (KIP-368)
USERS = {"storm": "storm-secret, =]"}


def options() -> dict[str, str]:
    """They replace those of a client without a login. Empty: nobody logs in."""
    found: dict[str, str] = json.loads(os.environ.get(ENVIRONMENT, "{}"))
    return found
