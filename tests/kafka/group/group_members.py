"""Members and owners of groups against a coordinator in this process: what the tests of both group protocols share."""

from __future__ import annotations

import contextlib

from fake_broker import serve
from group_wire import tps

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.member import GroupMember
from kafkasource.source.commits.owner import GroupOwner

WAIT_S = 10.0
ALL = frozenset(tps("t:0,t:1,t:2,t:3"))


def config_of(host, port, **settings):
    return ClientConfig.of(f"{host}:{port}", retry_backoff_ms=1, retry_backoff_max_ms=5, **settings)


@contextlib.contextmanager
def members_of(kafka):
    """Makes members of the group `g`, each with a cluster of its own, and ends them all."""
    with contextlib.ExitStack() as stack:
        host, port = stack.enter_context(serve(kafka))

        def make(of_client=None, **settings):
            cluster = stack.enter_context(Cluster(config_of(host, port, **(of_client or {}))))
            return stack.enter_context(GroupMember(cluster, "g", ["t"], **settings))

        yield make


def settle(*members, shares):
    """Poll in turn until everybody has its share; what was told meanwhile, by member."""
    told = [[] for _ in members]
    for _ in range(2_000):
        for member, changes in zip(members, told, strict=True):
            changes += filter(None, [member.poll(0.005)])
        if [len(member.assignment) for member in members] == shares and all(member.joined for member in members):
            return told
    raise AssertionError([member.assignment for member in members])


class Clock:
    """Moves when somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.naps = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds


@contextlib.contextmanager
def owners_with(config):
    """Makes owners of the group `g`, and ends them all."""
    with contextlib.ExitStack() as stack:

        def make(clock=None):
            clock = clock or Clock()
            made = GroupOwner(config, "g", clock=clock, sleep=clock.sleep)
            stack.callback(made.close)
            return made

        yield make


def hold(owner):
    owner.hold(lambda: ["t"])
