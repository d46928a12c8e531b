"""A Kerberos KDC for tests: MIT's krb5kdc (Debian: krb5-kdc), with a database and a port of its own in a folder.

It needs no root, and touches nothing outside of its folder. `make extended` installs the package.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from kafkasource.testing.broker.properties import HOST, free_ports

REALM = "TEST"
# Debian's packages put them where PATH does not lead an ordinary user.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Kdc:
    """`with Kdc(folder) as kdc`: `krb5_conf` for clients and brokers, `keytab(principal)` for each of them."""

    def __init__(self, folder: Path, ticket_lifetime_s: int = 3600) -> None:
        self._folder, self._port = folder, free_ports(1)[0]
        self.krb5_conf = folder / "krb5.conf"
        # One setting a line: Java's parser knows no other form.
        self.krb5_conf.write_text(
            "[libdefaults]\n"
            f" default_realm = {REALM}\n"
            " dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n"
            " rdns = false\n"
            " udp_preference_limit = 1\n"
            f" ticket_lifetime = {ticket_lifetime_s}s\n"
            "[realms]\n"
            f" {REALM} = {{\n"
            f"  kdc = {HOST}:{self._port}\n"
            " }\n"
        )
        (folder / "kdc.conf").write_text(
            "[realms]\n"
            f" {REALM} = {{\n"
            f"  database_name = {folder}/principal\n"
            f"  key_stash_file = {folder}/stash\n"
            f"  acl_file = {folder}/kadm5.acl\n"
            f"  kdc_listen = {HOST}:{self._port}\n"
            f"  kdc_tcp_listen = {HOST}:{self._port}\n"
            f"  max_life = {ticket_lifetime_s}s\n"
            " }\n"
        )
        self._environment = {
            **os.environ,
            "PATH": PATH,
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        }

    def __enter__(self) -> "Kdc":
        if shutil.which("krb5kdc", path=PATH) is None:
            pytest.skip("needs MIT's KDC: apt-get install krb5-kdc krb5-admin-server")
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of this test only")
        log = (self._folder / "kdc.log").open("wb")
        command = ["krb5kdc", "-n", "-P", str(self._folder / "kdc.pid")]
        with log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        self._await_port()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def keytab(self, principal: str) -> Path:
        """A file with the key of this principal, who is made first: `alice`, `kafka/localhost`."""
        path = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr

    def _await_port(self) -> None:
        deadline = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                return socket.create_connection((HOST, self._port), 1).close()
            except OSError:
                time.sleep(0.02)
        raise AssertionError((self._folder / "kdc.log").read_text())
