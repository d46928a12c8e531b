"""Faults of the network between a node and all others."""

from __future__ import annotations

import time

from kafkasource.kafka.protocol import apis
from lab.campaign.faults import Fault
from lab.campaign.harms.lane import Doing, NotPossible
from lab.campaign.rig import Rig

THIN_BYTES_PER_S = 100_000.0
DELAY_S = 0.15
MOST_WAITING = 20


class NetworkHarms:
    def __init__(self, rig: Rig) -> None:
        self._proxies = rig.frame_proxies
        self._by_kind: dict[str, Doing] = {
            "reset connections": self._reset,
            "delay bytes": self._delay,
            "swallow bytes": self._swallow,
            "thin line": self._thin,
            "refuse connections": self._refuse,
            "lose an answer": self._lose_answer,
        }

    def do(self, fault: Fault) -> None:
        self._by_kind[fault.kind](fault)

    def _reset(self, fault: Fault) -> None:
        self._proxies[fault.node - 1].reset_all()

    def _delay(self, fault: Fault) -> None:
        proxy = self._proxies[fault.node - 1]
        proxy.delay_s = DELAY_S
        proxy.reset_all()
        time.sleep(fault.lasts_s)
        proxy.delay_s = 0.0
        proxy.reset_all()

    def _swallow(self, fault: Fault) -> None:
        proxy = self._proxies[fault.node - 1]
        proxy.blackhole = True
        time.sleep(fault.lasts_s)
        proxy.reset_all()  # connections that lost bytes must not go on
        proxy.blackhole = False
        proxy.reset_all()

    def _thin(self, fault: Fault) -> None:
        proxy = self._proxies[fault.node - 1]
        proxy.bytes_per_s = proxy.from_broker_bytes_per_s = THIN_BYTES_PER_S
        time.sleep(fault.lasts_s)
        proxy.bytes_per_s = proxy.from_broker_bytes_per_s = None

    def _refuse(self, fault: Fault) -> None:
        proxy = self._proxies[fault.node - 1]
        proxy.refuse = True
        proxy.reset_all()
        time.sleep(fault.lasts_s)
        proxy.refuse = False

    def _lose_answer(self, fault: Fault) -> None:
        api, harm = fault.variant.split()
        proxy = self._proxies[fault.node - 1]
        if proxy.faults_left > MOST_WAITING:
            raise NotPossible(f"{MOST_WAITING} faults still wait for their answers")
        proxy.harm(getattr(apis, api), harm, client_id="campaign")
