"""Who a query is: read from the file that Spark writes into the checkpoint, and never guessed."""

import threading
from types import SimpleNamespace

import pytest
from pyarrow import fs

from kafkasource.errors import OptionError
from kafkasource.exactly_once import query_identity
from kafkasource.exactly_once.query_identity import IdentitySource, QueryIdentity, read_query_id

ID = "6f0c2f5e-8a53-4a9c-b7a2-0123456789ab"


@pytest.fixture
def checkpoint(tmp_path):
    """As Spark 4.3 leaves it, at a place whose name looks like an escape."""
    folder = tmp_path / "a%20b #c" / "orders"
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(f'{{"id":"{ID}"}}')
    return folder


# As Hadoop's Path of Spark 4.3 takes them apart (org.apache.hadoop.fs.Path, seen in jshell): percent signs are literal.
@pytest.mark.parametrize(
    "spelled", ["{}", "{}/", "file:{}", "file://{}", "file:///{}", "FILE:{}", "file://localhost{}", "{}//", "{}/./x/.."]
)
def test_every_spelling_of_a_local_checkpoint_is_the_same_query(checkpoint, spelled):
    found = IdentitySource(location=spelled.format(checkpoint)).find()
    assert (found.ids.prefix, found.query_id) == (f"kafkasource-{ID}", ID)


def test_a_relative_path_is_one_of_the_working_directory(checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint.parent)
    assert read_query_id("orders") == read_query_id("./orders/") == ID


def test_two_checkpoints_whose_paths_are_the_same_text_are_two_queries(checkpoint, tmp_path, monkeypatch):
    """As on two hosts, or relative to two working directories."""
    other = tmp_path / "elsewhere" / "orders"
    other.mkdir(parents=True)
    (other / "metadata").write_text('{"id":"2"}')
    found = []
    for folder in (checkpoint, other):
        monkeypatch.chdir(folder.parent)
        found.append(IdentitySource(location="orders").find().ids)
    assert found[0] != found[1]


def test_a_prefix_that_is_given_is_the_identity_and_no_checkpoint_is_read():
    source = IdentitySource.of("mine", {"checkpointlocation": "/nowhere"})
    found = QueryIdentity(query_identity.TransactionalIds("mine"), location="/nowhere")  # type: ignore[attr-defined]
    assert source.find() == found
    assert source.find().of_cluster("east").ids.prefix == "mine-east"


def test_buckets_are_read_by_pyarrow_under_any_of_hadoops_schemes(checkpoint, monkeypatch):
    asked = []

    def from_uri(uri):
        asked.append(uri)
        return fs.LocalFileSystem(), str(checkpoint.parent)

    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=from_uri))
    query_identity._filesystems.reset()
    for scheme in ("s3", "s3a", "s3n", "S3A"):
        assert read_query_id(f"{scheme}://bucket/orders/") == ID
    assert read_query_id("gs://bucket/orders") == ID
    assert read_query_id("hdfs://name:8020/orders") == ID
    assert asked == ["s3://bucket/", "gs://bucket/", "hdfs://name:8020/"]  # a bucket is looked up once


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        (
            "{}/not-there",
            r"no file 'metadata' on this machine\. A query writes it when it starts\. If .* give the full",
        ),
        ("file:{}/not-there", "there is no file 'metadata'"),
        ("{}/broken", "'metadata' is not of a streaming query"),
        ("{}/folder", "Is a directory"),
        ("foo://x/y", "[Uu]nrecognized filesystem"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_what_to_do(tmp_path, location, reason):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "metadata").write_text('{"id":7}')
    (tmp_path / "folder" / "metadata").mkdir(parents=True)
    given = location.format(tmp_path)
    with pytest.raises(OptionError, match=rf"'checkpointLocation': .*{reason}.*'transactionalIdPrefix'"):
        read_query_id(given)


@pytest.mark.parametrize("secret", ["wJalrXUtnFEMI", "wJalr/XUtn+FEMI", "wJalr%2FXUtn"])
def test_no_error_shows_the_secret_in_a_location(monkeypatch, secret):
    def refused(scheme, authority, path):
        raise OSError(f"no bucket at {scheme}://{authority}{path}")

    monkeypatch.setattr(query_identity, "_read_remote", refused)
    with pytest.raises(OptionError, match=r"'s3a://KEY:\[hidden\]@bucket/orders': no bucket at s3://KEY") as raised:
        read_query_id(f"s3a://KEY:{secret}@bucket/orders")
    assert secret not in str(raised.value)
    assert "wJalr" not in str(raised.value)


def test_a_store_that_does_not_answer_is_an_error_in_time(monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr(query_identity, "READ_WITHIN_S", 0.01)
    monkeypatch.setattr(query_identity, "_read_remote", lambda *_: answers.wait())
    try:
        with pytest.raises(OptionError, match="no answer within"):
            read_query_id("s3a://bucket/orders")
    finally:
        answers.set()
