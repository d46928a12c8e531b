"""Output files of commands: a regular file gets its name when it is complete, anything else is written directly."""

import io
import os
import stat
import threading
import zipfile
from contextlib import contextmanager

import pytest

from kafkasource.errors import OptionError
from kafkasource.tools.cli import main
from kafkasource.tools.cli.whole_file import written_whole


def write(file, *pieces):
    with written_whole(file, "--to") as stream:
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            stream.write(piece)


@contextmanager
def read_fifo(fifo):
    """A list, to which its content is added."""
    read = []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    yield read
    reader.join(10)


def test_a_file_has_its_name_when_it_is_complete_and_after_an_error_the_old_one_is_there(tmp_path):
    file = tmp_path / "day.txt"
    write(file, b"old")
    with pytest.raises(ZeroDivisionError):
        write(file, b"new", ZeroDivisionError())
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("day.txt", b"old")]


def test_a_link_in_the_place_of_the_incomplete_file_is_not_followed(tmp_path):
    (tmp_path / "other").write_bytes(b"precious")
    (tmp_path / "day.txt.part").symlink_to(tmp_path / "other")
    write(tmp_path / "day.txt", b"new")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"other": b"precious", "day.txt": b"new"}
    assert not (tmp_path / "day.txt").is_symlink()


def test_a_fifo_gets_the_bytes_and_stays_one(tmp_path):
    with read_fifo(tmp_path / "fifo") as read:
        write(tmp_path / "fifo", b"one ", b"two")
    assert read == [b"one two"]
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)
    assert list(tmp_path.iterdir()) == [tmp_path / "fifo"]


def test_the_zip_of_bundle_can_go_into_a_fifo_and_into_dev_null(tmp_path):
    with read_fifo(tmp_path / "fifo") as read:
        assert main(["bundle", "zip", str(tmp_path / "fifo")]) == 0
    archive = zipfile.ZipFile(io.BytesIO(*read))
    assert archive.testzip() is None
    assert "kafkasource/__init__.py" in archive.namelist()
    assert main(["bundle", "zip", os.devnull]) == 0


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to what is not there yet"])
def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path, there):
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk" / "day.txt", tmp_path / "link.txt"
    if there:
        target.write_bytes(b"old")
    link.symlink_to("disk/day.txt")
    write(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "disk", target, link])


@pytest.mark.parametrize("name", [".", "nowhere/day.txt"])
def test_what_cannot_be_written_is_one_error_that_names_the_argument(tmp_path, name):
    with pytest.raises(OptionError, match=r"^--to: "):
        write(tmp_path / name, b"x")
