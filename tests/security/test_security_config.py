"""What a connection's options become in the process that connects."""

import logging

import pytest
from certificate_maker import authority

from kafkasource.errors import OptionError
from kafkasource.security.config import SecurityConfig


def test_connections_share_a_context_and_hear_a_warning_once(caplog):
    config = SecurityConfig.of({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"})
    contexts = {id(config.tls_context()) for _ in range(3)}
    assert len(contexts) == 1
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert ["TLSv1.1" in each for each in warned] == [True]


def test_what_a_reference_stands_for_is_looked_up_for_each_connection(monkeypatch, tmp_path):
    config = SecurityConfig.of({"security.protocol": "SSL", "ssl.truststore.location": "${env:TRUSTSTORE}"})
    for name in ("a", "b"):
        (tmp_path / name).write_text(authority().pem)
        monkeypatch.setenv("TRUSTSTORE", str(tmp_path / name))
        assert str(tmp_path / name) in config.tls_context().setup().trusted
    monkeypatch.delenv("TRUSTSTORE")
    with pytest.raises(OptionError, match="TRUSTSTORE"):
        config.tls_context()
