"""The attempts to connect to one broker: what the present one has tried, and when the next one may begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafkasource.errors import ConnectFailed
from kafkasource.kafka.config import ClientConfig, backoff_ms
from kafkasource.kafka.network.old_releases import HandshakeStep
from kafkasource.kafka.network.sockets import Address
from kafkasource.kafka.network.states import LinkEvent

_CLOSES_AT_TLS_MS = 20_000.0


@dataclass
class Attempt:
    """The addresses of the host that are left, and the errors of earlier ones. Kept while its connection is in use."""

    host: str  # "host:port"
    first_step: HandshakeStep = field(default_factory=HandshakeStep)
    addresses: list[Address] = field(default_factory=list)  # still to try
    address: Address | None = None  # the address that is tried, or in use
    step: HandshakeStep = field(init=False)  # of finding out what the broker at this address serves
    reasons: list[str] = field(default_factory=list)  # why addresses failed, or the name
    tls_unanswered: bool = False  # did an address close the connection at the first message of TLS?

    def __post_init__(self) -> None:
        self.step = self.first_step

    def next_address(self) -> Address:
        self.address = self.addresses.pop(0)
        return self.address

    def again(self, step: HandshakeStep) -> None:
        """The same address is tried once more, for the next step of the search."""
        assert self.address is not None
        self.addresses.insert(0, self.address)
        self.step = step

    def failed(self, reason: str) -> LinkEvent:
        """The address that was tried, or the name, did not work out; what that means for the attempt."""
        text = str(self.address or self.host)
        self.reasons.append(reason if text == self.host else f"{text}: {reason}")
        self.step = self.first_step
        return LinkEvent.ADDRESS_FAILED if self.addresses else LinkEvent.ATTEMPT_FAILED

    def error(self, broker: str, advertised: bool) -> ConnectFailed:
        """Make the error of a failed attempt, for callers whose requests wait."""
        why = "; ".join(self.reasons)
        if not advertised:
            return ConnectFailed(f"cannot connect to {broker}: {why}")
        return ConnectFailed(
            f"cannot connect to {broker}, the address it advertises: {why}. If that address cannot be reached from"
            " here, correct advertised.listeners of the broker"
        )

    def connected(self) -> LinkEvent:
        if self.step.known is not None:
            return LinkEvent.CONNECTED_TO_KNOWN
        return LinkEvent.CONNECTED if self.step.probe is None else LinkEvent.CONNECTED_TO_PROBE


class Backoff:
    """The pauses between attempts, and the patience with each: both grow with the failures."""

    def __init__(self, config: ClientConfig, random: Callable[[], float]) -> None:
        self._config, self._random = config, random
        self.failures = 0  # attempts that failed, with none succeeding since
        self.until_ms = 0.0  # of the client's clock
        self.first_failed_ms = 0.0  # of these attempts
        self.all_at_tls = True  # did each of them end at the first message of TLS?

    @property
    def setup_timeout_ms(self) -> float:
        """How long the look-up of the name may take, and the connection to each address until versions are known."""
        first_ms = self._config.socket_connection_setup_timeout_ms
        most_ms = max(self._config.socket_connection_setup_timeout_max_ms, first_ms)
        return min(first_ms * 2.0 ** min(self.failures, 62), most_ms)

    def failed(self, now: float, at_tls: bool = False) -> None:
        """An attempt failed. `at_tls`: at the first message of TLS."""
        if not self.failures:
            self.first_failed_ms, self.all_at_tls = now, True
        self.all_at_tls = self.all_at_tls and at_tls
        self._wait(self.failures, now)
        self.failures += 1

    def lacks_tls(self, now: float) -> bool:
        """Is it a port without TLS? A broker that is being stopped closes connections, too, but not for 20 s."""
        return self.failures >= 3 and self.all_at_tls and now - self.first_failed_ms >= _CLOSES_AT_TLS_MS

    def lost(self, now: float) -> None:
        """A connection that was in use was lost: the shortest pause."""
        self._wait(0, now)

    def _wait(self, failures: int, now: float) -> None:
        first_ms, most_ms = self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms
        self.until_ms = now + backoff_ms(failures, first_ms, most_ms, self._random())
