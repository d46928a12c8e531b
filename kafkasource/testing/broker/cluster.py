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
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafkasource.errors import OptionError, ProtocolError
from kafkasource.testing.broker.errors import BrokerNotOurs, BrokerStartFailed
from kafkasource.testing.broker.jvm.command_lines import Jvm, logging_flags, performance_flags
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.jvm.jars import kafka_jars
from kafkasource.testing.broker.node import NodeProcess, tail
from kafkasource.testing.broker.probe import ask_for_coordinator, probe
from kafkasource.testing.broker.properties import (
    HOST,
    NodePorts,
    is_free,
    node_ports,
    render,
    server_properties,
    write_private,
)
from kafkasource.testing.broker.releases import DEFAULT_VERSION, is_legacy, release_of
from kafkasource.testing.broker.security.acls import Acl
from kafkasource.testing.broker.security.secured import SecuredCluster
from kafkasource.testing.broker.security.settings import Security
from kafkasource.testing.broker.storage import format_storage
from kafkasource.testing.broker.zookeeper import ZooKeeper, legacy_server_properties

START_ATTEMPTS = 3  # a port chosen as free can be taken before the broker has it
START_TIMEOUT_S = 120.0  # up in ~4 s on an idle machine; a laden CI machine takes far longer
POLL_S = 0.05
_PORT_TAKEN = re.compile(r"Address already in use|Failed to bind|BindException|Socket server failed to bind")


class Broker:
    """A real Kafka on 127.0.0.1: `with Broker() as broker: ... broker.bootstrap_servers`.

    version              as on Maven Central: 3.3 and newer (KRaft), 0.8.2 to 1.1 and 2.4 to 3.2 (with a ZooKeeper)
    nodes                1 or 3, numbered from 1; each is broker and controller (before KRaft: one of them at a time)
    ports                a client port for each node; free ones when absent
    preferred_ports      without `ports`: taken where all of them are free
    advertised_ports     what Metadata tells clients instead of `ports`: where a test put a TCP proxy
    racks                a `broker.rack` for each node (KIP-36, KIP-392; not before 0.10)
    properties           more of server.properties, for all nodes; they have the last word
    log_dir              keeps the data in this folder; a later Broker with the same `ports` and `nodes` finds it again
    use_existing         with KAFKA_BOOTSTRAP_SERVERS in the environment, use that cluster and start nothing
    heap_mb              of each node's JVM
    security             SSL, SASL_PLAINTEXT or SASL_SSL: one listener, at `ports`; or a `Security` with several. It
                         always starts a Kafka, whatever KAFKA_BOOTSTRAP_SERVERS names
    mechanisms, users, acls, client_auth    with security as a text; see `Security` and `Listener`

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
        preferred_ports: Sequence[int] = (),
        advertised_ports: Sequence[int] | None = None,
        racks: Sequence[str] | None = None,
        use_existing: bool = True,
        heap_mb: int = 512,
        start_timeout_s: float = START_TIMEOUT_S,
        security: str | Security | None = None,
        mechanisms: Sequence[str] = (),
        users: Mapping[str, str] | None = None,
        acls: Sequence[Acl] | None = None,
        client_auth: str = "none",
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
        self._release = release_of(version)
        if racks is not None and self._release < (0, 10):
            raise OptionError(f"racks={list(racks)}: brokers of {version} have no racks (KIP-36 came with 0.10)")
        if isinstance(security, str):
            security = Security.of(security, mechanisms, users, acls, client_auth)
        elif mechanisms or users or acls is not None or client_auth != "none":
            raise OptionError("mechanisms, users, acls and client_auth go with security='SSL' or 'SASL_...' as a text")
        if security is not None:
            security.check(version)
        self._security = security
        self._secured: SecuredCluster | None = None
        self.version, self.nodes, self.heap_mb = version, nodes, heap_mb
        self.properties = dict(properties or {})
        self._racks = racks
        self._wanted_ports, self._advertised_ports = ports, advertised_ports
        self._preferred_ports = preferred_ports
        self._log_dir = Path(log_dir).absolute() if log_dir is not None else None
        self._start_timeout_s = start_timeout_s
        existing = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "").strip() if use_existing and security is None else ""
        self._existing = existing or None
        self._folder: Path | None = None
        self._ports: list[NodePorts] = []
        self._running: dict[int, NodeProcess] = {}
        self._jvms: dict[int, Jvm] = {}  # by node: each may be of another release
        self._zookeeper: ZooKeeper | None = None
        self._owner_pid: int | None = None

    @property
    def legacy(self) -> bool:
        """Whether it runs with a ZooKeeper. Before 0.10.1 no API makes topics."""
        return is_legacy(self._release)

    @property
    def existing(self) -> bool:
        """Whether this is the cluster of KAFKA_BOOTSTRAP_SERVERS, which is neither started nor stopped here."""
        return self._existing is not None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every node, with commas: what `kafka.bootstrap.servers` takes; the advertised ports.

        With security: of the first secured listener.
        """
        if self._existing is not None:
            return self._existing
        if not self._ports:
            raise BrokerStartFailed("the broker is not started: use `with Broker() as broker`, or start()")
        if self._secured is not None:
            return self._secured.bootstrap_servers()
        return ",".join(f"{HOST}:{ports.advertised}" for ports in self._ports)

    @property
    def keeps_data(self) -> bool:
        """Whether its data stays at the end: it has a `log_dir`."""
        return self._log_dir is not None

    @property
    def is_secured(self) -> bool:
        return self._security is not None

    @property
    def secured(self) -> SecuredCluster:
        """Certificates, tokens, ACLs and clients' configurations of a broker with `security` that is started."""
        if self._secured is None:
            raise OptionError("this broker is not secured, or not started: use `with Broker(security=...) as broker`")
        return self._secured

    def client_properties(
        self, listener: str | None = None, mechanism: str | None = None, user: str | None = None
    ) -> dict[str, str]:
        """How a client connects, in Java's names; without arguments as in `<folder>/client.properties`."""
        if self._security is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self.secured.client_properties(listener, mechanism, user)

    @property
    def ports(self) -> list[int]:
        """The addresses where the nodes listen, node 1 first, whatever they advertise. A proxy connects to these."""
        self._refuse_existing("ports")
        return [ports.client for ports in self._ports]

    @property
    def pids(self) -> list[int]:
        """The pids of the supervisors of the nodes that run."""
        return [process.pid for process in self._running.values()]

    @property
    def running(self) -> list[int]:
        """The numbers of the nodes that run: all but those that `kill` and `terminate` have ended."""
        return sorted(self._running)

    @property
    def zookeeper_pid(self) -> int | None:
        """The pid of the supervisor of the ZooKeeper, which must end last."""
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

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start every node and wait until each sees all of them.

        Raises `BrokerStartFailed`, leaving nothing behind, and OptionError for a `log_dir` with files of others.
        """
        if self.existing or self._running:
            return
        self._refuse_a_folder_of_others()
        for attempt in range(1, START_ATTEMPTS + 1):
            self._owner_pid = os.getpid()  # `stop` after a failed attempt takes it away
            self._make_folder()
            self._ports = self._choose_ports(preferred=self._preferred_ports if attempt == 1 else ())
            try:
                if self._security is not None:
                    self._secured = SecuredCluster(self._security, self.folder, self._ports)
                self._jvms = dict.fromkeys(range(1, self.nodes + 1), self._jvm_of(self.version))
                self._write_properties()
                if self.legacy:
                    self._start_zookeeper()
                else:
                    scram = self._secured.scram_credentials() if self._secured else ()
                    format_storage(self._jvms[1], self.nodes, scram, self._start_timeout_s)
                for node in range(1, self.nodes + 1):
                    self._start_node(node)
                self._await_nodes(range(1, self.nodes + 1))
                if self._secured is not None and self._secured.security.acls:
                    self._secured.create_acls(*self._secured.security.acls)
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

    def restart(self, node: int = 1, version: str | None = None) -> None:
        """Start a node again on its port and data (stopping it in order if it runs), until the running nodes see it.

        `version`: the release that it runs from now on, as in a rolling upgrade. The `metadata.version` stays.
        """
        self._refuse_existing("restart")
        if version is not None and (self.legacy or is_legacy(release_of(version))):
            raise OptionError(f"version={version!r}: only a node of a Kafka with KRaft goes to another, from 3.3 on")
        self.terminate(node)
        if version is not None:
            self._jvms[node] = self._jvm_of(version)
        self._start_node(node)
        self._await_nodes(sorted(self._running))

    def stop(self) -> None:
        """End all nodes and remove the data, at once; with `log_dir`, in order, and the data stays. Idempotent."""
        if self._owner_pid != os.getpid():  # not started, or a forked child's copy
            return
        for node in list(self._running):
            process = self._running.pop(node)
            if self._log_dir is not None:
                process.terminate()
            else:
                process.kill()  # its data is removed next
        if self._zookeeper is not None:
            self._zookeeper.end(in_order=self._log_dir is not None)
        self._zookeeper = None
        if self._folder is not None and self._log_dir is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self._ports, self._secured, self._owner_pid = None, [], None, None

    def let_go(self) -> None:
        """Leave the nodes running after this process. `pids` and `folder` find them; this object cannot be used
        again."""
        for process in self._running.values():
            process.let_go()
        if self._zookeeper is not None:
            self._zookeeper.let_go()
        self._running, self._zookeeper, self._owner_pid = {}, None, None

    def log(self, node: int = 1, lines: int = 30) -> str:
        """The last lines of what a node logged: warnings and errors."""
        return tail(self.folder / f"node-{self._check_node(node)}.log", lines)

    def _refuse_a_folder_of_others(self) -> None:
        kept = self._log_dir
        if kept is not None and kept.is_dir() and any(kept.iterdir()) and not (kept / "node-1.properties").exists():
            raise OptionError(
                f"{kept} has files that no broker of ours has kept there, and the broker would overwrite some: choose "
                "an empty folder"
            )

    def _make_folder(self) -> None:
        if self._log_dir is not None:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            self._folder = self._log_dir
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="kafkasource-broker-"))

    def _choose_ports(self, preferred: Sequence[int]) -> list[NodePorts]:
        for port in self._wanted_ports or ():
            if not is_free(port):
                self.stop()
                raise BrokerStartFailed(
                    f"port {port} of {HOST} is in use: choose another, or let Broker find a free one"
                )
        secured = len(self._security.listeners) if self._security else 0
        wanted = self._wanted_ports or (preferred if preferred and all(map(is_free, preferred)) else None)
        return node_ports(self.nodes, wanted, self._advertised_ports, secured)

    def _write_properties(self) -> None:
        """`node-N.properties` for each node, for its owner only: it may hold passwords."""
        for node in range(1, self.nodes + 1):
            ports, data = self._ports[node - 1], self.folder / f"node-{node}"
            extra: dict[str, object] = {"broker.rack": self._racks[node - 1]} if self._racks else {}
            if self._secured is not None:
                extra |= self._secured.server_properties(ports, self._release)
            extra |= self.properties
            if self.legacy:
                zookeeper = self._ports[0].controller
                properties = legacy_server_properties(self._release, node, self._ports, zookeeper, data, extra)
            else:
                properties = server_properties(node, self._ports, data, extra)
            write_private(self.folder / f"node-{node}.properties", render(properties))

    def _start_zookeeper(self) -> None:
        """At the first node's controller port."""
        remove = self.folder if self._log_dir is None else None
        self._zookeeper = ZooKeeper.start(self._jvms[1], self._ports[0].controller, remove)
        if (said := self._zookeeper.await_ready(self._start_timeout_s)) is not None:
            raise BrokerStartFailed(f"the ZooKeeper of Kafka {self.version} did not start: {said}")
        if self._security is not None:
            self._zookeeper.add_scram_users(self._jvms[1], self._security, self._start_timeout_s)

    def _jvm_of(self, version: str) -> Jvm:
        java, jars = find_java(), kafka_jars(version)
        flags = performance_flags() + logging_flags(self.folder)
        if self._secured is not None:
            flags += self._secured.jvm_flags(self.legacy)
        return Jvm(java, jars, self.folder, self.heap_mb, flags)

    def _start_node(self, node: int) -> None:
        # ZooKeeper may still hold the registration of a node that was killed, in this run or in an earlier one.
        if self._zookeeper is not None and not self._zookeeper.await_free(node, self._start_timeout_s):
            raise BrokerStartFailed(f"another broker {node} is still registered in ZooKeeper")
        command = self._jvms[node].command("kafka.Kafka", str(self.folder / f"node-{node}.properties"))
        remove = self.folder if self._log_dir is None else None
        self._running[node] = NodeProcess(command, self.folder / f"node-{node}.log", remove)

    def _await_nodes(self, nodes: Sequence[int]) -> None:
        """Wait until Metadata from each of these nodes names all of them. Raises as soon as one has ended."""
        deadline, waiting, reason = time.monotonic() + self._start_timeout_s, set(nodes), "it did not answer"
        while waiting:
            for node in nodes:
                if (code := self._running[node].exit_code) is not None:
                    raise BrokerStartFailed(
                        f"node {node} of Kafka {self.version} ended with exit code {code}: {self._said(node)}"
                    )
            for node in sorted(waiting):
                try:
                    known = {broker.node_id for broker in probe(HOST, self._ports[node - 1].unsecured, timeout_s=5.0)}
                    if not known and self._registered(nodes):
                        ask_for_coordinator(HOST, self._ports[node - 1].unsecured, timeout_s=5.0)
                except (OSError, ProtocolError) as error:
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
                "change; unset it, or use Broker(use_existing=False), to start a Kafka"
            )
