"""The states of a link to one broker, what can happen to it, and what it does then: one table, without any I/O.

            ATTEMPT              RESOLVED               CONNECTED                 VERSIONS_KNOWN
    IDLE ────────────▶ RESOLVING ─────────▶ CONNECTING ───────────▶ NEGOTIATING ────────────────▶ READY
     ▲                     ▲                 │   ▲   ▲                │  ▲                          │
     │                     │       CONNECTED │   │   │ UNANSWERED,    │  │ IDENTIFIED               │
     │             ATTEMPT │       _TO_PROBE │   │   │ ADDRESS_FAILED │  │                          │
     │                     │                 ▼   │   └────────────────┘  │                          │
     │                     │              PROBING ───────────────────────┘                          │
     │                     │                 (UNANSWERED, ADDRESS_FAILED: CONNECTING, too)          │
     │                 BACKING_OFF ◀── ATTEMPT_FAILED: the last address has failed; LOST ───────────┤
     └──────────────────────────────────── CLOSE; BROKER_CLOSED, IDLE_EXPIRED: with nothing under way

With SASL it authenticates between NEGOTIATING and READY, and again before the broker ends its session:

                 VERSIONS_KNOWN_TO_LOG_IN                   LOGGED_IN
    NEGOTIATING ──────────────────────────▶ AUTHENTICATING ───────────▶ READY
                                                                        │   ▲
                                                         SESSION_ENDING │   │ LOGGED_IN
                                                                        ▼   │
                                                                 DRAINING ─▶ REAUTHENTICATING
                                                                     DRAINED    │
    IDLE ◀── RENEWAL_LOST: the requests go on with the next connection ─────────┤
    BACKING_OFF ◀── REFUSED, or LOST, which can happen while DRAINING, too ─────┘

An attempt to connect tries all addresses of the broker's host, one after the other. A broker that closes the connection
without an answer to ApiVersions may not know the form in which it was asked, or may be one from before Kafka 0.10: the
client connects to the same address again, asks in a lower form, and at last probes for these (`old_releases`).
"""

from __future__ import annotations

from enum import Enum


class LinkState(Enum):
    IDLE = "idle"  # no socket; the next request begins an attempt at once
    BACKING_OFF = "backing off"  # no socket; an attempt failed, or the connection was lost: the next one has to wait
    RESOLVING = "resolving"  # the host's name is being looked up
    CONNECTING = "connecting"  # the socket is not connected yet
    PROBING = "probing"  # connected; the request is sent that only brokers from some old release on answer
    NEGOTIATING = "negotiating"  # connected; ApiVersions is sent
    AUTHENTICATING = "authenticating"  # the versions are known; SASL is under way
    READY = "ready"  # requests may be sent
    DRAINING = "draining"  # the session nears its end: what is in flight is answered, and nothing more is sent
    REAUTHENTICATING = "reauthenticating"  # SASL is under way once more, on the same connection


class LinkEvent(Enum):
    # The client.
    ATTEMPT = "attempt"  # a request waits, and no backoff, or no more
    CLOSE = "close"  # the connection, if there is one, is not wanted any more
    # The resolver.
    RESOLVED = "resolved"  # to one address at least; with none, the attempt has failed
    RESOLVER_BROKE = "resolver broke"  # it raised an error that is not about names: a bug, which `poll` raises
    # The address that is tried.
    CONNECTED = "connected"
    CONNECTED_TO_PROBE = "connected to probe"  # the broker closed the connection before: is it an old one?
    CONNECTED_TO_KNOWN = "connected to known"  # the same, and its release is known by now
    IDENTIFIED = "identified"  # the probe is answered, with whatever
    VERSIONS_KNOWN = "versions known"  # and the listener wants no SASL
    VERSIONS_KNOWN_TO_LOG_IN = "versions known to log in"  # it wants SASL
    LOGGED_IN = "logged in"  # the broker knows the client
    UNANSWERED = "unanswered"  # closed, or dropped, what was sent first, and there is a step left to try there
    ADDRESS_FAILED = "address failed"  # refused, closed, garbage or too late, and there is another address
    ATTEMPT_FAILED = "attempt failed"  # the same, and there is none
    # The connection that was ready.
    LOST = "lost"  # with requests under way, or by bytes that make no sense
    BROKER_CLOSED = "broker closed"  # with nothing under way: brokers close what nobody uses
    # The session that nears its end.
    DRAINED = "drained"  # all that was in flight is answered
    REFUSED = "refused"  # the broker takes the credentials no more, or they cannot be read here
    RENEWAL_LOST = "renewal lost"  # closed or too late in the middle of SASL; what waits was not sent
    # The clock.
    SESSION_ENDING = "session ending"  # soon, and a request waits
    NUDGE_DUE = "nudge due"  # no answer to ApiVersions for a moment
    IDLE_EXPIRED = "idle expired"  # not used for `connections.max.idle.ms`


class LinkAction(Enum):
    RESOLVE = "look the host's name up"
    OPEN = "close the socket if there is one, connect to the attempt's next address"
    NEGOTIATE = "send the first request of the connection: ApiVersions, or a probe"
    NUDGE = "send the request of a silent release behind ApiVersions"
    START = "forget earlier failures, write the requests that wait"
    GIVE_UP = "close the socket, back off longer after each failure, fail all requests"
    BACK_OFF = "close the socket, back off for the shortest time, fail all requests"
    CLOSE = "close the socket, fail all requests if there is a reason to"
    DRAIN = "go on at once where nothing is in flight"
    RENEW = "begin SASL once more"
    RESUME = "write the requests that wait"
    LET_GO = "close the socket; the requests wait for the next connection"


_S, _E, _A = LinkState, LinkEvent, LinkAction

TRANSITIONS: dict[tuple[LinkState, LinkEvent], tuple[LinkState, LinkAction | None]] = {
    (_S.IDLE, _E.ATTEMPT): (_S.RESOLVING, _A.RESOLVE),
    (_S.IDLE, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.BACKING_OFF, _E.ATTEMPT): (_S.RESOLVING, _A.RESOLVE),
    (_S.BACKING_OFF, _E.CLOSE): (_S.BACKING_OFF, _A.CLOSE),
    (_S.RESOLVING, _E.RESOLVED): (_S.CONNECTING, _A.OPEN),
    (_S.RESOLVING, _E.ATTEMPT_FAILED): (_S.BACKING_OFF, _A.GIVE_UP),
    (_S.RESOLVING, _E.RESOLVER_BROKE): (_S.IDLE, None),  # the requests wait for the next attempt
    (_S.RESOLVING, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.CONNECTING, _E.CONNECTED): (_S.NEGOTIATING, _A.NEGOTIATE),
    (_S.CONNECTING, _E.CONNECTED_TO_PROBE): (_S.PROBING, _A.NEGOTIATE),
    (_S.CONNECTING, _E.CONNECTED_TO_KNOWN): (_S.READY, _A.START),
    (_S.CONNECTING, _E.ADDRESS_FAILED): (_S.CONNECTING, _A.OPEN),
    (_S.CONNECTING, _E.ATTEMPT_FAILED): (_S.BACKING_OFF, _A.GIVE_UP),
    (_S.CONNECTING, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.PROBING, _E.IDENTIFIED): (_S.NEGOTIATING, None),  # `Connection` gives ApiVersions as its reply
    (_S.PROBING, _E.NUDGE_DUE): (_S.PROBING, None),  # ApiVersions is not asked yet
    (_S.PROBING, _E.UNANSWERED): (_S.CONNECTING, _A.OPEN),
    (_S.PROBING, _E.ADDRESS_FAILED): (_S.CONNECTING, _A.OPEN),
    (_S.PROBING, _E.ATTEMPT_FAILED): (_S.BACKING_OFF, _A.GIVE_UP),
    (_S.PROBING, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.NEGOTIATING, _E.VERSIONS_KNOWN): (_S.READY, _A.START),
    (_S.NEGOTIATING, _E.VERSIONS_KNOWN_TO_LOG_IN): (_S.AUTHENTICATING, None),  # `Connection` gives SaslHandshake
    (_S.NEGOTIATING, _E.NUDGE_DUE): (_S.NEGOTIATING, _A.NUDGE),
    (_S.NEGOTIATING, _E.UNANSWERED): (_S.CONNECTING, _A.OPEN),
    (_S.NEGOTIATING, _E.ADDRESS_FAILED): (_S.CONNECTING, _A.OPEN),
    (_S.NEGOTIATING, _E.ATTEMPT_FAILED): (_S.BACKING_OFF, _A.GIVE_UP),
    (_S.NEGOTIATING, _E.LOST): (_S.BACKING_OFF, _A.BACK_OFF),  # the versions came, and garbage right behind them
    (_S.NEGOTIATING, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.AUTHENTICATING, _E.LOGGED_IN): (_S.READY, _A.START),
    (_S.AUTHENTICATING, _E.ADDRESS_FAILED): (_S.CONNECTING, _A.OPEN),
    (_S.AUTHENTICATING, _E.ATTEMPT_FAILED): (_S.BACKING_OFF, _A.GIVE_UP),
    (_S.AUTHENTICATING, _E.LOST): (_S.BACKING_OFF, _A.BACK_OFF),  # it was done, and garbage came right behind
    (_S.AUTHENTICATING, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.READY, _E.LOST): (_S.BACKING_OFF, _A.BACK_OFF),
    (_S.READY, _E.BROKER_CLOSED): (_S.IDLE, _A.CLOSE),
    (_S.READY, _E.IDLE_EXPIRED): (_S.IDLE, _A.CLOSE),
    (_S.READY, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.READY, _E.SESSION_ENDING): (_S.DRAINING, _A.DRAIN),
    (_S.DRAINING, _E.DRAINED): (_S.REAUTHENTICATING, _A.RENEW),
    (_S.DRAINING, _E.LOST): (_S.BACKING_OFF, _A.BACK_OFF),
    (_S.DRAINING, _E.CLOSE): (_S.IDLE, _A.CLOSE),
    (_S.REAUTHENTICATING, _E.LOGGED_IN): (_S.READY, _A.RESUME),
    (_S.REAUTHENTICATING, _E.REFUSED): (_S.BACKING_OFF, _A.GIVE_UP),
    (_S.REAUTHENTICATING, _E.RENEWAL_LOST): (_S.IDLE, _A.LET_GO),
    (_S.REAUTHENTICATING, _E.LOST): (_S.BACKING_OFF, _A.BACK_OFF),  # it was done, and garbage came right behind
    (_S.REAUTHENTICATING, _E.CLOSE): (_S.IDLE, _A.CLOSE),
}
"""What is not in it cannot happen: a link raises RuntimeError there, which is a bug of this client."""
