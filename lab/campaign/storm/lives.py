"""Threads of short lives: a client is opened, does some work, and is closed, again and again until SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from types import FrameType

from kafkasource.errors import KafkaSourceError, OptionError
from lab.campaign import login
from lab.campaign.clock import jumps_by_file
from lab.campaign.ending import end_with_starter

Life = Callable[[int], None]
"""One life, by its number. It may raise a KafkaSourceError: brokers were away for too long."""

PAUSE_S = 0.05

SERVERS = "kafka.bootstrap.servers"


def connection(servers: str) -> dict[str, str]:
    """The options by which a client of ours connects."""
    return {
        SERVERS: servers,
        "kafka.client.id": "campaign",  # the proxies harm this client's connections alone
        "kafka.request.timeout.ms": "3000",  # so long does an answer that never comes hold up a client
        "kafka.default.api.timeout.ms": "60000",
    } | login.options()


def _failed(failed: threading.Event, ending: threading.Event) -> None:
    traceback.print_exc()
    failed.set()
    ending.set()


def live(kinds: Mapping[str, Life]) -> None:
    """One thread for each name. Returns when all have ended their last life after SIGTERM. Any error but Kafka's is a
    bug, of the storm or of kafkasource: it ends the process with exit code 1."""
    end_with_starter()
    jumps_by_file()
    ending, failed = threading.Event(), threading.Event()

    def leave(_number: int, _frame: FrameType | None) -> None:
        ending.set()

    def lives(name: str, life: Life) -> None:
        number = 0
        while not ending.wait(PAUSE_S):
            try:
                life(number)
            except OptionError:
                _failed(failed, ending)
                raise
            except KafkaSourceError as error:
                print(time.strftime("%H:%M:%S"), name, "life", number, "gave up:", repr(error)[:500], flush=True)
            except BaseException:
                _failed(failed, ending)
                raise
            number += 1

    signal.signal(signal.SIGTERM, leave)
    threads = [threading.Thread(target=lives, args=item, daemon=True) for item in kinds.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)  # in between the main thread takes signals
    if failed.is_set():
        raise SystemExit(1)
