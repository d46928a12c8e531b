"""`Broker`: a real Apache Kafka with one or three nodes for a `with` block. It leaves nothing behind.

    <folder>/node-1.properties, node-1.log    the node's configuration, and its output (stdout and stderr)
    <folder>/node-1/                          its data: log.dirs
    <folder>/zookeeper.properties, ...        before KRaft; see zookeeper.py

The folder is temporary. It is removed at the end, even after a crash of this process (supervisor.py does that), unless
`log_dir` names a folder to keep.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from kafkasource.broker.jars import kafka_jars
from kafkasource.broker.java import find_java
from kafkasource.broker.node import NodeProcess, tail, telling
from kafkasource.broker.probe import ask_for_coordinator, probe
from kafkasource.broker.properties import HOST, NodePorts, free_ports, is_free, kafka_uuid, render, server_properties
from kafkasource.broker.zookeeper import (
    HEAP_MB,
    LOG4J,
    MAIN_CLASS,
    ZooKeeper,
    legacy_server_properties,
    zookeeper_properties,
)
from kafkasource.errors import KafkaSourceError, OptionError

DEFAULT_VERSION = "4.3.1"
LEGACY = (
    (0, 8),
    (0, 9),
    (0, 10),
    (0, 11),
)  # releases with a ZooKeeper that were seen to run under the Java that Spark needs
START_ATTEMPTS = 3  # a port chosen as free can be taken before the broker has it
START_TIMEOUT_S = 120.0  # up in ~4 s on an idle machine; a laden CI machine takes far longer
POLL_S = 0.05
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
_PORT_TAKEN = re.compile(r"Address already in use|Failed to bind|BindException|Socket server failed to bind")


class BrokerStartFailed(KafkaSourceError):
    """Kafka did not come up; the text ends with the last lines it printed."""


class BrokerNotOurs(KafkaSourceError):
    """Asked to kill or restart a node of the existing cluster that KAFKA_BOOTSTRAP_SERVERS names."""


class Broker:
    """A real Kafka on 127.0.0.1: `with Broker() as broker: ... broker.bootstrap_servers`.

    version              as on Maven Central: 3.9 and newer (KRaft), 0.8.2 to 0.11 (with a ZooKeeper of their own)
    nodes                1 or 3, numbered from 1; each is broker and controller (before KRaft: one of them at a time)
    ports                a client port for each node; free ones when absent
    advertised_ports     what Metadata tells clients instead of `ports`: where a test put a TCP proxy
    racks                a `broker.rack` for each node (KIP-36, KIP-392; not before 0.10)
    properties           more of server.properties, for all nodes; they have the last word
    log_dir              keeps the data in this folder; a later Broker with the same `ports` and `nodes` finds it again
    use_existing         with KAFKA_BOOTSTRAP_SERVERS in the environment, use that cluster and start nothing
    heap_mb              of each node's JVM

    Not thread-safe; belongs to the process that started it (stop() in a forked child does nothing).
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        nodes: int = 1,
        ports: Sequence[int] | None = None,
        properties: Mapping[str, object] | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        *,
        advertised_ports: Sequence[int] | None = None,
        racks: Sequence[str] | None = None,
        use_existing: bool = True,
        heap_mb: int = 512,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        if nodes not in (1, 3):
            raise OptionError(f"nodes={nodes}: expected 1 or 3 (KRaft needs an odd number for a majority)")
        for name, given in (("ports", ports), ("advertised_ports", advertised_ports)):
            if given is not None and (len(given) != nodes or len(set(given)) != nodes):
                raise OptionError(f"{name}={list(given)}: expected a different port for each of the {nodes} nodes")
            if given is not None and not all(0 < port < 1 << 16 for port in given):
                raise OptionError(f"{name}={list(given)}: expected ports from 1 to 65535")
        if racks is not None and len(racks) != nodes:
            raise OptionError(f"racks={list(racks)}: expected one rack for each of the {nodes} nodes")
        self._release = _release_of(version)
        if racks is not None and self._release < (0, 10):
            raise OptionError(f"racks={list(racks)}: brokers of {version} have no racks (KIP-36 came with 0.10)")
        self.version, self.nodes, self.heap_mb = version, nodes, heap_mb
        self.properties = dict(properties or {})
        self._racks = racks
        self._wanted_ports, self._advertised_ports = ports, advertised_ports
        self._log_dir = Path(log_dir).absolute() if log_dir is not None else None
        self._start_timeout_s = start_timeout_s
        self._existing = (os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "").strip() if use_existing else "") or None
        self._folder: Path | None = None
        self._ports: list[NodePorts] = []
        self._running: dict[int, NodeProcess] = {}
        self._zookeeper: ZooKeeper | None = None
        self._owner_pid: int | None = None

    @property
    def legacy(self) -> bool:
        """Whether this is a Kafka from before KRaft, with a ZooKeeper. Before 0.10.1 no API makes topics."""
        return self._release in LEGACY

    @property
    def existing(self) -> bool:
        """Whether this is the cluster of KAFKA_BOOTSTRAP_SERVERS, which is neither started nor stopped here."""
        return self._existing is not None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every node, with commas: what `kafka.bootstrap.servers` takes; the advertised ports."""
        if self._existing is not None:
            return self._existing
        if not self._ports:
            raise BrokerStartFailed("the broker is not started: use `with Broker() as broker`, or start()")
        return ",".join(f"{HOST}:{each.advertised}" for each in self._ports)

    @property
    def ports(self) -> list[int]:
        """Where the nodes listen, node 1 first, whatever they advertise: what a proxy connects to."""
        self._refuse_existing("ports")
        return [each.client for each in self._ports]

    @property
    def pids(self) -> list[int]:
        """Of the supervisors of the nodes that run."""
        return [process.pid for process in self._running.values()]

    @property
    def zookeeper_pid(self) -> int | None:
        """Of the supervisor of the ZooKeeper, which must go last."""
        return self._zookeeper.pid if self._zookeeper is not None else None

    @property
    def zookeeper(self) -> str:
        """`host:port` of its ZooKeeper, for the tools of that time."""
        self._refuse_existing("zookeeper")
        if self._zookeeper is None:
            raise BrokerStartFailed(f"Kafka {self.version} runs without ZooKeeper, or is not started")
        return f"{HOST}:{self._zookeeper.port}"

    @property
    def folder(self) -> Path:
        self._refuse_existing("folder")
        if self._folder is None:
            raise BrokerStartFailed("the broker is not started: use `with Broker() as broker`, or start()")
        return self._folder

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start every node and wait until each sees all of them. Raises `BrokerStartFailed`, leaving nothing behind."""
        if self.existing or self._running:
            return
        self._java, self._jars = find_java(), kafka_jars(self.version)
        self._owner_pid = os.getpid()
        for attempt in range(1, START_ATTEMPTS + 1):
            self._make_folder()
            self._ports = self._choose_ports()
            try:
                if self.legacy:
                    self._prepare_legacy()
                else:
                    self._format()
                for node in range(1, self.nodes + 1):
                    self._start_node(node)
                self._await_nodes(range(1, self.nodes + 1))
            except BrokerStartFailed as failure:
                self.stop()
                # Only what we chose ourselves can be chosen again.
                retry = self._wanted_ports is None and self._log_dir is None and _PORT_TAKEN.search(str(failure))
                if not retry or attempt == START_ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def kill(self, node: int = 1) -> None:
        """End a node as a power cut would, and wait until it has ended. Its data stays for `restart`."""
        self._refuse_existing("kill")
        if process := self._running.pop(self._check_node(node), None):
            process.kill()

    def terminate(self, node: int = 1) -> None:
        """Stop a node cleanly (it hands over its leaderships), and wait until it has ended. Its data stays."""
        self._refuse_existing("terminate")
        if process := self._running.pop(self._check_node(node), None):
            process.terminate()

    def pause(self, node: int = 1) -> None:
        """Stop a node where it is (SIGSTOP), until `resume`: it hangs, with all its connections open."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int = 1) -> None:
        """Let a paused node continue. It does not notice that time has passed."""
        self._signal(node, signal.SIGCONT)

    def _signal(self, node: int, which: signal.Signals) -> None:
        self._refuse_existing("pause and resume")
        if process := self._running.get(self._check_node(node)):
            process.send_signal(which)

    def restart(self, node: int = 1) -> None:
        """Start a node again on its port and data (stopping it in order if it runs), until the running nodes see it."""
        self._refuse_existing("restart")
        self.terminate(node)
        self._start_node(node)
        self._await_nodes(sorted(self._running))

    def stop(self) -> None:
        """End all nodes and remove the data, at once; with `log_dir`, in order, and the data stays. Idempotent."""
        if self._owner_pid != os.getpid():  # not started, or a forked child's copy
            return
        for node in list(self._running):
            process = self._running.pop(node)
            if self._log_dir is None:
                process.kill()  # nobody will read that data again
            else:
                process.terminate()
        if self._zookeeper is not None:
            self._zookeeper.end(in_order=self._log_dir is not None)
        self._zookeeper = None
        if self._folder is not None and self._log_dir is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self._ports, self._owner_pid = None, [], None

    def let_go(self) -> None:
        """Leave the nodes running after this process.

        `pids` and `folder` find them; this object cannot be used again.
        """
        for process in self._running.values():
            process.let_go()
        if self._zookeeper is not None:
            self._zookeeper.let_go()
        self._running, self._zookeeper, self._owner_pid = {}, None, None

    def log(self, node: int = 1, lines: int = 30) -> str:
        """The last lines of what a node logged: warnings and errors."""
        return tail(self.folder / f"node-{self._check_node(node)}.log", lines)

    def _make_folder(self) -> None:
        if self._log_dir is not None:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            self._folder = self._log_dir
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="kafkasource-broker-"))

    def _choose_ports(self) -> list[NodePorts]:
        for port in self._wanted_ports or ():
            if not is_free(port):
                self.stop()
                raise BrokerStartFailed(
                    f"port {port} of {HOST} is in use: choose another, or let Broker find a free one"
                )
        taken = {*(self._wanted_ports or ()), *(self._advertised_ports or ())}
        spare = [port for port in free_ports(2 * self.nodes + len(taken)) if port not in taken]
        clients = list(self._wanted_ports or spare[: self.nodes])
        advertised = list(self._advertised_ports or clients)
        return [NodePorts(*each) for each in zip(clients, spare[self.nodes :], advertised, strict=False)]

    def _format(self) -> None:
        """Write properties, and an empty log for each node that has none, as `kafka-storage format` makes it."""
        for node in range(1, self.nodes + 1):
            own = {"broker.rack": self._racks[node - 1]} if self._racks else {}
            told = server_properties(node, self._ports, self.folder / f"node-{node}", {**own, **self.properties})
            (self.folder / f"node-{node}.properties").write_text(render(told))
        first, template = self.folder / "node-1.properties", self.folder / "node-1"
        if not (template / "meta.properties").exists():
            tool = self._command("kafka.tools.StorageTool", "format", "-t", kafka_uuid(), "-c", str(first))
            done = subprocess.run(
                tool, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=self._start_timeout_s
            )
            if done.returncode != 0:
                raise BrokerStartFailed(
                    f"Kafka {self.version} refuses its properties: {telling(done.stdout + done.stderr)}"
                )
        # The other nodes differ in two lines of one file: copying spares a JVM for each.
        for node in range(2, self.nodes + 1):
            data = self.folder / f"node-{node}"
            if not (data / "meta.properties").exists():
                shutil.copytree(template, data, dirs_exist_ok=True)
                meta = (template / "meta.properties").read_text()
                meta = re.sub(r"(?m)^node\.id=.*$", f"node.id={node}", meta)
                meta = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={kafka_uuid()}", meta)
                (data / "meta.properties").write_text(meta)

    def _prepare_legacy(self) -> None:
        """Write the configuration files, and start a ZooKeeper at the first node's controller port."""
        port = self._ports[0].controller
        (self.folder / "log4j.properties").write_text(LOG4J)
        told = self.folder / "zookeeper.properties"
        told.write_text(render(zookeeper_properties(port, self.folder / "zookeeper")))
        for node in range(1, self.nodes + 1):
            own = {"broker.rack": self._racks[node - 1]} if self._racks else {}
            data, extra = self.folder / f"node-{node}", {**own, **self.properties}
            properties = legacy_server_properties(self._release, node, self._ports, port, data, extra)
            (self.folder / f"node-{node}.properties").write_text(render(properties))
        log = self.folder / "zookeeper.log"
        command = self._command(MAIN_CLASS, str(told), heap_mb=HEAP_MB)
        process = NodeProcess(command, log, self.folder if self._log_dir is None else None)
        self._zookeeper = ZooKeeper(process, port, log)
        if (said := self._zookeeper.await_ready(self._start_timeout_s)) is not None:
            raise BrokerStartFailed(f"the ZooKeeper of Kafka {self.version} did not start: {said}")

    def _command(self, *main_class: str, heap_mb: int | None = None) -> list[str]:
        # Killed, a JVM leaves its codecs' libraries in java.io.tmpdir and its counters in /tmp: both go with the rest.
        files = (f"-Djava.io.tmpdir={self.folder}", "-XX:-UsePerfData")
        most = heap_mb or self.heap_mb
        heap = (f"-Xms{min(256, most)}m", f"-Xmx{most}m")
        logging = (f"-Dlog4j.configuration=file:{self.folder}/log4j.properties",) if self.legacy else LOGGING
        return [str(self._java), *heap, *files, *logging, "-cp", f"{self._jars}/*", *main_class]

    def _start_node(self, node: int) -> None:
        # Killed a moment ago, or in an earlier run whose data this one goes on with.
        if self._zookeeper is not None and not self._zookeeper.await_free(node, self._start_timeout_s):
            raise BrokerStartFailed(f"another broker {node} is still registered in ZooKeeper")
        command = self._command("kafka.Kafka", str(self.folder / f"node-{node}.properties"))
        remove = self.folder if self._log_dir is None else None
        self._running[node] = NodeProcess(command, self.folder / f"node-{node}.log", remove)

    def _await_nodes(self, nodes: Sequence[int]) -> None:
        """Until Metadata from each of these nodes names all of them; raises as soon as one has ended."""
        deadline, waiting, reason = time.monotonic() + self._start_timeout_s, set(nodes), "it did not answer"
        while waiting:
            for node in nodes:
                if (code := self._running[node].exit_code) is not None:
                    raise BrokerStartFailed(
                        f"node {node} of Kafka {self.version} ended with exit code {code}: {self._said(node)}"
                    )
            for node in sorted(waiting):
                try:
                    known = {each.node_id for each in probe(HOST, self._ports[node - 1].client, timeout_s=5.0)}
                    if not known and self._registered(nodes):
                        ask_for_coordinator(HOST, self._ports[node - 1].client, timeout_s=5.0)
                except (OSError, ValueError) as error:
                    reason = str(error)
                    break
                if not known.issuperset(nodes):
                    reason = f"it knows of the nodes {sorted(known)} only"
                    break
                waiting.discard(node)
            if waiting and time.monotonic() > deadline:
                node = min(waiting)
                raise BrokerStartFailed(
                    f"node {node} of Kafka {self.version} is not ready after {self._start_timeout_s:g} s "
                    f"({reason}): {self._said(node)}"
                )
            if waiting:
                time.sleep(POLL_S)

    def _registered(self, nodes: Sequence[int]) -> bool:
        return self._zookeeper is not None and all(map(self._zookeeper.registered, nodes))

    def _said(self, node: int) -> str:
        said = self.log(node)
        return f"it logged\n{said}" if said else "it logged nothing"

    def _check_node(self, node: int) -> int:
        if not 1 <= node <= self.nodes:
            raise OptionError(f"there is no node {node}: this cluster has the nodes 1 to {self.nodes}")
        if self._folder is None:
            raise BrokerStartFailed("the broker is not started: use `with Broker() as broker`, or start()")
        return node

    def _refuse_existing(self, what: str) -> None:
        if self.existing:
            raise BrokerNotOurs(
                f"{what}: KAFKA_BOOTSTRAP_SERVERS={self._existing} is an existing cluster, which Broker does not "
                "change; "
                "unset it, or use Broker(use_existing=False), to start a Kafka"
            )


def _release_of(version: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+(?:\.\d+)?", version)
    if not match:
        raise OptionError(f"version={version!r}: expected a Kafka release such as {DEFAULT_VERSION}")
    release = int(match[1]), int(match[2])
    if release < (3, 9) and release not in LEGACY:
        raise OptionError(
            f"version={version!r}: Broker cannot run this release; use 0.8.2.2, 0.9.0.1, 0.10.2.2, 0.11.0.3, 3.9.2 "
            "or 4.3.1"
        )
    return release
