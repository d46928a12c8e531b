"""Passwords that a broker has refused: all connections of a process share this knowledge.

Directories behind brokers lock an account after some wrong passwords. A worker has many connections, which open at the
same time, and each of them would ask again and again. So a refusal counts for all connections of the process to the
cluster, for a pause that grows. And until a broker has accepted a password, one connection at a time tries it.

Nothing is asked here and nothing waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from kafkasource.errors import BrokerError, SaslAuthenticationFailed
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.kafka.security.sasl.credentials import SaslConfig

_FIRST_S, _MOST_S = 1.0, 60.0  # of the pause, which doubles
_TRIAL_S = 10.0  # after this time other connections may try, too
_MOST_KEPT = 64

Servers = tuple[tuple[str, int], ...]


@dataclass
class _Known:
    """The state of one password at one cluster."""

    accepted: bool = False
    refusal: BrokerError | None = None
    failures: int = 0
    until_s: float = 0.0  # nobody asks before
    tried_by: object = None
    tried_until_s: float = 0.0


class PasswordRefusals:
    """Thread-safe. Credentials without a password are nobody's concern here: there is no account to lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._by_credentials: Recent[tuple[SaslConfig, Servers], _Known] = Recent(_MOST_KEPT)

    def begin(self, credentials: SaslConfig, servers: Servers, who: object) -> bool:
        """`who` wants to log in; whether it may now. True where no broker is to be asked: `check` says why.

        Until `end`, or until the broker has accepted the password, nobody else may.
        """
        if credentials.password is None:
            return True
        with self._lock:
            known, now_s = self._known(credentials, servers), self._clock()
            if known.accepted or now_s < known.until_s:
                return True
            if known.tried_by not in (None, who) and now_s < known.tried_until_s:
                return False
            known.tried_by, known.tried_until_s = who, now_s + _TRIAL_S
            return True

    def check(self, credentials: SaslConfig, servers: Servers) -> None:
        """Raises SaslAuthenticationFailed while the pause after a refusal lasts."""
        if credentials.password is None:
            return
        with self._lock:
            known = self._known(credentials, servers)
            left_s = known.until_s - self._clock()
            if known.refusal is None or left_s <= 0:
                return
            code, said = known.refusal.code, known.refusal.context
        raise SaslAuthenticationFailed(
            code, f"{said}. This process asks no broker again for {left_s:.1f} s, as accounts may be locked"
        )

    def refused(self, credentials: SaslConfig, servers: Servers, error: BrokerError) -> None:
        """A broker has said so."""
        if credentials.password is None:
            return
        with self._lock:
            known = self._known(credentials, servers)
            known.accepted, known.refusal = False, error
            known.until_s = self._clock() + min(_FIRST_S * 2.0 ** min(known.failures, 62), _MOST_S)
            known.failures += 1

    def accepted(self, credentials: SaslConfig, servers: Servers) -> None:
        """A broker has taken them: what others said before counts no more."""
        if credentials.password is None:
            return
        with self._lock:
            self._by_credentials.put((credentials, servers), _Known(accepted=True))

    def end(self, who: object) -> None:
        """`who` tries no more, whatever became of it."""
        with self._lock:
            for known in self._by_credentials:
                if known.tried_by is who:
                    known.tried_by = None

    def _known(self, credentials: SaslConfig, servers: Servers) -> _Known:
        return self._by_credentials.of((credentials, servers), _Known)


process_refusals: PerProcess[PasswordRefusals] = PerProcess(PasswordRefusals)
