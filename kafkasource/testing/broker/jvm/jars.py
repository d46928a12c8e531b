"""Downloads jars from Maven Central into a cache folder, with the Ivy inside pyspark. It needs no docker.

<cache>/lock            held while anything here is changed: concurrent starts wait, then find the work done
<cache>/ivy/            Ivy's own cache; a half-written one is thrown away and resolved again
<cache>/kafka-4.3.1/    complete, or not there: a set is retrieved beside it and renamed into place
<cache>/kafka-4.3.1.…   a set being retrieved; swept by the next process that holds the lock
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.releases import release_of

DOWNLOAD_TIMEOUT_S = 900


class JarsNotResolved(KafkaSourceError):
    """Ivy could not fetch the jars: no network, no such version, or no pyspark to take Ivy from."""


@dataclass(frozen=True)
class Coordinate:
    """A Maven artifact; `transitive` says whether what its POM asks for comes too."""

    group: str
    artifact: str
    version: str
    transitive: bool = True
    classifier: str = ""  # of a jar beside the artifact's own, such as `test`; it comes alone

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        """From `group:artifact:version` or `group:artifact:version:classifier`; a trailing `!` leaves out what its POM
        asks for."""
        parts = text.removesuffix("!").split(":")
        if len(parts) not in (3, 4) or not all(re.fullmatch(r"[\w.+-]+", part) for part in parts):
            raise OptionError(f"not a Maven coordinate group:artifact:version: {text!r}")
        return cls(parts[0], parts[1], parts[2], not text.endswith("!"), parts[3] if len(parts) == 4 else "")

    @property
    def jar(self) -> str:
        return f"{self.artifact}-{self.version}{'-' if self.classifier else ''}{self.classifier}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


# Ivy asks for no lists of versions and no checksums: the same server would send these over the same TLS. It sends half
# as many requests, and Kafka's jars take 25 s, not 46.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" root="https://repo1.maven.org/maven2/" usepoms="{poms}"
             useMavenMetadata="false" checksums=""/>
  </resolvers>
</ivysettings>
"""

_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kafkasource" module="one"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="{wanted.group}" name="{wanted.artifact}" rev="{wanted.version}" transitive="false"
                conf="default->default">
      <artifact name="{wanted.artifact}" type="{extension}" ext="{extension}" m:classifier="{wanted.classifier}"
                conf="default"/>
    </dependency>
  </dependencies>
</ivy-module>
"""

# Kafka logs to SLF4J, whose 1.7 API comes with it but no binding: without one it fails to start and says nothing.
LOGGING = Coordinate.parse("org.slf4j:slf4j-simple:1.7.36!")

# Kafka 0.10.1 to 1.0 makes its cluster id with it; Java has dropped it since.
JAXB = Coordinate.parse("javax.xml.bind:jaxb-api:2.3.1!")


def cache_dir() -> Path:
    """`$KAFKASOURCE_CACHE`, else `kafkasource` in `$XDG_CACHE_HOME` or `~/.cache`; created when absent."""
    own, base = os.environ.get("KAFKASOURCE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    path = Path(own) if own else (Path(base) if base else Path.home() / ".cache") / "kafkasource"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KafkaSourceError(
            f"cannot create the cache folder {path} ({error}): set KAFKASOURCE_CACHE to another folder"
        ) from error
    return path.resolve()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file lock at `path`, waiting for other processes and threads; a dead holder's lock is gone with it."""
    with path.open("a") as file:  # append: opening must not empty it, and it is never removed
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kafka_jars(version: str) -> Path:
    """The folder with the jars of a Kafka broker of this version, downloaded when not there (45 MB, some 25 s)."""
    folder, release = cache_dir() / f"kafka-{version}", release_of(version)
    scala = "2.11" if release < (2, 4) else "2.13"
    jaxb = (JAXB,) if (0, 10) <= release < (1, 1) else ()
    logging = (LOGGING,) if release >= (1, 1) else ()  # a log4j 1.2 comes with the older ones
    resolve_jars(f"org.apache.kafka:kafka_{scala}:{version}", *jaxb, *logging, dest=folder)
    return folder


def resolve_jars(*coordinates: Coordinate | str, dest: Path) -> list[Path]:
    """The jars of these artifacts in `dest`, downloaded when they are not there; sorted by name.

    `dest` is this call's own folder inside `cache_dir()`, named for what is in it: a complete one is believed.
    Safe to call from any number of processes at once. Raises `JarsNotResolved` with what Ivy said, `JavaNotFound`.
    """
    wanted = [Coordinate.parse(coordinate) if isinstance(coordinate, str) else coordinate for coordinate in coordinates]
    if not (jars := _complete(dest, wanted)):
        with locked(cache_dir() / "lock"):
            if not (jars := _complete(dest, wanted)):  # another process may have done it while we waited
                _retrieve(wanted, dest)
                jars = _complete(dest, wanted)
    return jars


def find_ivy() -> Path:
    """`ivy-*.jar` of the installed pyspark, found without importing it (that would start py4j for nothing)."""
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if os.environ.get("SPARK_HOME"):
        places.append(os.environ["SPARK_HOME"])
    for place in places:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar"), reverse=True):
            return jar
    raise JarsNotResolved(
        "no ivy-*.jar to download Kafka with: pip install 'pyspark>=4.2' into this Python (its jars folder holds one), "
        "or set KAFKA_BOOTSTRAP_SERVERS to use a Kafka that is already running"
    )


def _complete(folder: Path, wanted: Sequence[Coordinate]) -> list[Path]:
    """Its jars, when the folder holds what was asked for and every jar has its end; else nothing."""
    jars = sorted(folder.glob("*.jar"))
    names = {jar.name for jar in jars}
    good = jars and all(coordinate.jar in names for coordinate in wanted) and all(map(zipfile.is_zipfile, jars))
    return jars if good else []


@contextmanager
def retrieving(what: str, dest: Path) -> Iterator[Path]:
    """A folder beside `dest` for a download, which is gone after the block. The caller holds the lock."""
    dest.parent.mkdir(parents=True, exist_ok=True)
    for leftover in dest.parent.glob(f"{dest.name}.*"):  # left by a process that died
        shutil.rmtree(leftover, ignore_errors=True)
    print(f"kafkasource: downloading {what} to {dest} ...", file=sys.stderr, flush=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{dest.name}.", dir=dest.parent))
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def not_retrieved(what: str, said: str) -> JarsNotResolved:
    """`said`: what Ivy printed."""
    return JarsNotResolved(
        f"cannot download {what} from Maven Central (check the network and the version; KAFKASOURCE_IVY_SETTINGS names "
        f"an Ivy settings file for a mirror): {complaint(said)}"
    )


def _retrieve(wanted: Sequence[Coordinate], dest: Path) -> None:
    """Fill `dest` at once or not at all; the caller holds the lock."""
    java, ivy = find_java(), find_ivy()
    ivy_home, said = cache_dir() / "ivy", ""
    names = ", ".join(map(str, wanted))
    with retrieving(names, dest) as partial:
        # An earlier attempt may have left half a file that Ivy believes: the second begins with nothing. The old Ivy
        # cache goes only when that helped, for most often the version is wrong or the network is down.
        for home in (ivy_home, partial / "ivy"):
            jars = partial / f"from-{home.parent.name}"
            jars.mkdir()
            said = "".join(_run_ivy(java, ivy, home, coordinate, jars) for coordinate in wanted)
            if _complete(jars, wanted):
                if home != ivy_home:
                    shutil.rmtree(ivy_home, ignore_errors=True)
                    home.rename(ivy_home)
                shutil.rmtree(dest, ignore_errors=True)
                jars.rename(dest)
                return
    raise not_retrieved(names, said)


def _run_ivy(java: Path, ivy: Path, ivy_home: Path, wanted: Coordinate, dest: Path) -> str:
    """Retrieve one artifact into `dest`; returns what Ivy printed, whether it worked or not."""
    arguments = ["-cache", str(ivy_home / "cache")]
    if wanted.classifier:
        arguments += ["-ivy", str(write_module(dest.parent, wanted, "jar"))]
    else:
        arguments += ["-dependency", wanted.group, wanted.artifact, wanted.version]
    pattern = "[artifact]-[revision](-[classifier]).[ext]"
    # bundle: the packaging of scala-logging, which would be left out silently
    arguments += ["-retrieve", f"{dest}/{pattern}", "-types", "jar", "bundle", "-confs", "default"]
    if not wanted.transitive:
        arguments.append("-notransitive")
    return run_ivy(java, ivy, ivy_home, dest.parent, arguments, str(wanted))


def write_module(folder: Path, wanted: Coordinate, extension: str) -> Path:
    """Write Ivy's module file, which alone can name an artifact with a classifier; return its path."""
    path = folder / "ivy.xml"
    path.write_text(_MODULE.format(wanted=wanted, extension=extension))
    return path


def run_ivy(
    java: Path, ivy: Path, ivy_home: Path, folder: Path, arguments: Sequence[str], what: str, *, poms: bool = True
) -> str:
    """Run Ivy with these arguments; return what it printed, whether it worked or not.

    folder    the working directory, where Ivy leaves files on some errors: not the user's
    what      it is to retrieve, for the error
    poms      whether it reads the POM of each artifact

    Raises JarsNotResolved where it takes too long.
    """
    settings = os.environ.get("KAFKASOURCE_IVY_SETTINGS")
    if not settings:
        own = folder / "settings.xml"
        own.write_text(_SETTINGS.format(poms=str(poms).lower()))
        settings = str(own)
    # C1 alone: most of Ivy's time is waiting for answers, and compiling its code takes another 7 s of processor time.
    command = [str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Divy.home={ivy_home}", "-cp", str(ivy)]
    command += ["org.apache.ivy.Main", "-settings", settings, *arguments]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            cwd=folder,
        )
    except subprocess.TimeoutExpired as late:
        raise JarsNotResolved(
            f"the download of {what} did not finish within {DOWNLOAD_TIMEOUT_S} s: is Maven Central reachable?"
        ) from late
    return done.stdout


def complaint(said: str) -> str:
    """The lines with Ivy's errors among the hundreds that it prints."""
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if re.search(r"UNRESOLVED|not found|FAILED|Exception|Server access error", line)]
    return " | ".join(dict.fromkeys(telling or lines[-3:]))[:600] or "Ivy said nothing"
