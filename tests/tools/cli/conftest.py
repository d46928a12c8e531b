"""Checkpoints for the commands that read them, and scripts of `pykafka completion`."""

import pytest

from kafkasource.tools.cli import main

# The form of Spark 4.2.
METADATA = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1795300000000,"conf":{"spark.sql.shuffle.partitions":"2"},'
    '"sourceMetadataInfo":{}}'
)


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()

    def plan(number, *sources, done=True, version="v1"):
        (tmp_path / "offsets" / str(number)).write_text("\n".join([version, METADATA, *sources]))
        (tmp_path / "offsets" / f".{number}.crc").write_bytes(b"crc")
        if done:
            (tmp_path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    plan.location = str(tmp_path)  # type: ignore[attr-defined]
    return plan


@pytest.fixture
def script(tmp_path, capsys):
    """`script(shell)`: the file that the shell reads."""
    pytest.importorskip("shtab", reason="needs shtab: pip install 'kafkasource[cli]'")

    def of(shell):
        assert main(["completion", shell]) == 0
        file = tmp_path / f"pykafka.{shell}"
        file.write_text(capsys.readouterr().out)
        return str(file)

    return of
