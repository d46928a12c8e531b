"""`pykafka offsets translate`: which options reach which cluster."""

import argparse
import contextlib
import os

import pytest

from kafkasource.tools.cli import translate
from kafkasource.tools.cli.command_config import file_options
from kafkasource.types import TopicPartition


@pytest.mark.parametrize("source_has_its_own", [False, True])
def test_a_file_of_options_for_both_clusters_may_be_a_pipe(monkeypatch, tmp_path, source_has_its_own):
    reader, writer = os.pipe()
    os.write(writer, b"client.id=of-the-pipe\n")
    os.close(writer)
    (tmp_path / "source").write_text("client.id=of-the-source\n")
    reached = []

    @contextlib.contextmanager
    def reach(arguments):
        reached.append(file_options(arguments)["kafka.client.id"])
        yield

    monkeypatch.setattr(translate, "reached_cluster", reach)
    monkeypatch.setattr(translate, "committed_offsets", lambda cluster, group: {TopicPartition("t", 0): 1})
    arguments = argparse.Namespace(
        offset=None,
        checkpoint=None,
        group="g",
        bootstrap_servers="target:9092",
        source_servers="source:9092",
        source_command_config=str(tmp_path / "source") if source_has_its_own else None,
        command_config=f"/dev/fd/{reader}",
    )
    try:
        assert translate._wanted(arguments) == {TopicPartition("t", 0): 1}
        with reach(arguments):
            pass
    finally:
        os.close(reader)
    assert reached == ["of-the-source" if source_has_its_own else "of-the-pipe", "of-the-pipe"]
