"""The files beside a mirror's checkpoints, on this machine and through Hadoop's file systems."""

import pytest

from kafkasource.errors import KafkaSourceError
from kafkasource.mirror.files import HadoopFiles, LocalFiles, newest_record, save, tidy
from kafkasource.mirror.positions import FlowRules, MirrorReader, PositionRecord, SourceRules

FLOW = FlowRules("west", "${topic}", "^t$")


def record(number):
    return PositionRecord(number, "east", {}, SourceRules((FLOW,)), (MirrorReader(str(number), (FLOW,), {}),), {}, {})


@pytest.fixture(params=["local", pytest.param("hadoop", marks=pytest.mark.spark)])
def files(request, tmp_path):
    """A file system, and the folder of this machine that it shows."""
    if request.param == "local":
        return LocalFiles(f"{tmp_path}/mirror")
    return HadoopFiles(f"file:{tmp_path}/mirror", request.getfixturevalue("spark"))


def test_the_newest_record_counts_and_what_it_does_not_name_is_deleted(files):
    assert files.names("east") == []
    assert newest_record(files, "east") is None
    for number in (9, 10):
        save(files, record(number))
        files.write(f"east/{number}/offsets/0", "v1")
    files.write("east/flows-11.json.tmp", "half of a rec")  # a kill while it was written
    assert newest_record(files, "east") == record(10)
    tidy(files, record(10))
    assert [name for name in files.names("east") if not name.startswith(".")] == ["10", "flows-10.json"]
    assert files.text("east/10/offsets/0") == "v1"
    assert sorted(files.names("")) == ["east"]


def test_a_file_that_cannot_be_read_is_an_error_with_its_place(files):
    files.write("east/flows-1.json", "{}")
    with pytest.raises(KafkaSourceError, match=r"/mirror/east/flows-1.json is not a record"):
        newest_record(files, "east")
    with pytest.raises(KafkaSourceError, match="cannot be read"):
        files.text("east/none")
