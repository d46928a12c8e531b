"""`Registry`: a real schema registry for a `with` block, Apicurio with Confluent's API. It leaves nothing behind.

    <folder>/registry.log     its output
    <folder>/registry/        temporary files of its JVM

Its schemas are in memory, or in a topic of a Kafka (`bootstrap_servers`), where the next Registry finds them again.
"""

from __future__ import annotations

import http.client
import os
import shutil
import tempfile
import time
from pathlib import Path

from kafkasource.errors import OptionError
from kafkasource.testing.broker.errors import RegistryStartFailed
from kafkasource.testing.broker.jvm.command_lines import performance_flags
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.node import NodeProcess, tail
from kafkasource.testing.broker.properties import HOST, free_ports, is_free
from kafkasource.testing.broker.registry.app import VERSION, registry_jar

START_ATTEMPTS = 3  # a port chosen as free can be taken before the registry has it
START_TIMEOUT_S = 120.0  # up in ~6 s on an idle machine
POLL_S = 0.1
API = "/apis/ccompat/v7"
_PORT_TAKEN = "already in use"


class Registry:
    """A real schema registry on 127.0.0.1: `with Registry() as registry: ... registry.url`. The arguments:

    port                 default: a free port
    preferred_port       used if `port` is absent and this port is free
    bootstrap_servers    of a Kafka without security, in which the registry keeps its schemas
    topic                the topic there
    use_existing         if SCHEMA_REGISTRY_URL is set, use that registry and start nothing

    It checks no credentials and speaks no TLS. Compatibility is NONE until a request sets it. Not thread-safe; belongs
    to the process that started it (stop() in a forked child does nothing).
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        preferred_port: int | None = None,
        bootstrap_servers: str | None = None,
        topic: str = "registry-journal",
        use_existing: bool = True,
        heap_mb: int = 384,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        if port is not None and not 0 < port < 1 << 16:
            raise OptionError(f"port={port}: expected a port from 1 to 65535")
        self._wanted_port, self._preferred_port = port, preferred_port
        self.kept_in, self._topic = bootstrap_servers, topic
        self._heap_mb, self._start_timeout_s = heap_mb, start_timeout_s
        existing = os.environ.get("SCHEMA_REGISTRY_URL", "").strip() if use_existing else ""
        self._existing = existing or None
        self._port: int | None = None
        self._folder: Path | None = None
        self._process: NodeProcess | None = None
        self._owner_pid: int | None = None

    @property
    def existing(self) -> bool:
        """Whether this is the registry of SCHEMA_REGISTRY_URL, which is neither started nor stopped here."""
        return self._existing is not None

    @property
    def url(self) -> str:
        """The value of `schemaRegistry.url`, and of `schema.registry.url` in other clients."""
        if self._existing is not None:
            return self._existing
        if self._port is None:
            raise RegistryStartFailed("the registry is not started: use `with Registry() as registry`, or start()")
        return f"http://{HOST}:{self._port}{API}"

    @property
    def pid(self) -> int:
        """The pid of its supervisor."""
        assert self._process is not None
        return self._process.pid

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RegistryStartFailed("no registry is started here: use `with Registry() as registry`, or start()")
        return self._folder

    def __enter__(self) -> Registry:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it answers. Raises `RegistryStartFailed`, leaving nothing behind."""
        if self.existing or self._process is not None:
            return
        java, jar = find_java(), registry_jar()
        self._owner_pid = os.getpid()
        for attempt in range(1, START_ATTEMPTS + 1):
            self._folder = Path(tempfile.mkdtemp(prefix="kafkasource-registry-"))
            try:
                self._port = self._choose_port(preferred=attempt == 1)
                (self._folder / "registry").mkdir()
                command = self._command(java, jar)
                self._process = NodeProcess(command, self._folder / "registry.log", self._folder)
                self._await_answer()
            except RegistryStartFailed as failure:
                self.stop()
                if self._wanted_port is not None or _PORT_TAKEN not in str(failure) or attempt == START_ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """End it and remove its files. Idempotent."""
        if self._owner_pid != os.getpid():  # not started, or a forked child's copy
            return
        if self._process is not None:
            self._process.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._process, self._folder, self._port, self._owner_pid = None, None, None, None

    def let_go(self) -> None:
        """Leave it running after this process. `pid` and `folder`, read before, find it."""
        if self._process is not None:
            self._process.let_go()
        self._process, self._owner_pid = None, None

    def log(self, lines: int = 30) -> str:
        """The last lines of what it logged."""
        return tail(self.folder / "registry.log", lines)

    def _choose_port(self, preferred: bool) -> int:
        if self._wanted_port is not None:
            if not is_free(self._wanted_port):
                raise RegistryStartFailed(
                    f"port {self._wanted_port} of {HOST} is in use: choose another, or let Registry find a free one"
                )
            return self._wanted_port
        if preferred and self._preferred_port is not None and is_free(self._preferred_port):
            return self._preferred_port
        return free_ports(1)[0]

    def _command(self, java: Path, jar: Path) -> list[str]:
        settings = {
            "java.io.tmpdir": f"{self.folder}/registry",
            "quarkus.http.host": HOST,
            "quarkus.http.port": self._port,
            "quarkus.oidc.tenant-enabled": "false",
            "quarkus.log.level": "WARN",
            "quarkus.http.access-log.enabled": "false",
        }
        if self.kept_in is not None:
            settings |= {
                "apicurio.storage.kind": "kafkasql",
                "apicurio.kafkasql.bootstrap.servers": self.kept_in,
                "apicurio.kafkasql.topic": self._topic,
            }
        # It lives for minutes, mostly: the quick compiler alone takes a third less processor time.
        flags = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        named = [f"-D{name}={value}" for name, value in settings.items()]
        return [str(java), *flags, *performance_flags(), *named, "-jar", str(jar)]

    def _await_answer(self) -> None:
        assert self._process is not None
        assert self._port is not None
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            if (code := self._process.exit_code) is not None:
                raise RegistryStartFailed(f"Apicurio {VERSION} ended with exit code {code}: {self._said()}")
            if _answers(self._port):
                return
            if time.monotonic() > deadline:
                raise RegistryStartFailed(
                    f"Apicurio {VERSION} does not answer after {self._start_timeout_s:g} s: {self._said()}"
                )
            time.sleep(POLL_S)

    def _said(self) -> str:
        said = self.log()
        return f"it logged\n{said}" if said else "it logged nothing"


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", f"{API}/subjects")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
