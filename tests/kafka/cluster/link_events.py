"""What happens to the links of this process: for tests that count logins, sessions, or lost connections."""

from kafkasource.kafka.network.link import BrokerLink


def watch_links(monkeypatch, seen):
    """Call `seen(link, event, error)` before each event of each link, in the thread that polls it.

    Clients that other tests of the process have left may still look for brokers that are gone: `link.port` tells which
    are the test's own.
    """
    fire = BrokerLink._on

    def on(link, event, now, error=None):
        seen(link, event, error)
        fire(link, event, now, error)

    monkeypatch.setattr(BrokerLink, "_on", on)
