"""The download of the registry: a folder that is complete or not there, and an archive that is not believed."""

import io
import tarfile
import zipfile

import pytest

from kafkasource.testing.broker.jvm.jars import JarsNotResolved
from kafkasource.testing.broker.registry import app as registry_app

JAR = "apicurio-registry-app-3.0.9-runner.jar"


@pytest.fixture
def ivy(tmp_path, monkeypatch):
    """An Ivy that brings an archive of these members: name and bytes, or a TarInfo."""
    members, runs = [], []
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registry_app, "find_java", lambda: None)
    monkeypatch.setattr(registry_app, "find_ivy", lambda: None)

    def run(java, ivy, partial):
        runs.append(partial)
        if members:
            with tarfile.open(partial / "apicurio-registry-app-3.0.9.tar.gz", "w:gz") as archive:
                for name, data in members:
                    info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        return "\t\tmodule not found: io.apicurio#apicurio-registry-app;3.0.9\n"

    monkeypatch.setattr(registry_app, "_run_ivy", run)
    return members, runs


def a_jar():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return data.getvalue()


def test_it_is_downloaded_once(ivy):
    members, runs = ivy
    members += [(JAR, a_jar()), ("lib/a.jar", b"a")]
    jar = registry_app.registry_jar()
    assert (jar.name, (jar.parent / "lib" / "a.jar").read_bytes()) == (JAR, b"a")
    assert registry_app.registry_jar() == jar
    assert len(runs) == 1
    assert [path.name for path in jar.parent.parent.iterdir() if path.is_dir()] == ["apicurio-registry-3.0.9"]


def test_what_ivy_says_is_in_the_error(ivy):
    with pytest.raises(JarsNotResolved, match="module not found"):
        registry_app.registry_jar()


def test_an_archive_writes_nowhere_else(ivy, tmp_path):
    link = tarfile.TarInfo("lib/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    for name in ("../../outside", str(tmp_path / "outside"), link):
        members, _ = ivy
        members[:] = [(JAR, a_jar()), (name, b"")]
        with pytest.raises(JarsNotResolved, match="which no release"):
            registry_app.registry_jar()
        assert not (tmp_path / "outside").exists()
        assert not list((tmp_path / "cache").glob("apicurio*"))
