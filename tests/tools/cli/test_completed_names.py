"""Names of a cluster's topics and groups at TAB, in real shells at a real terminal; zsh and fish where they are
installed."""

import contextlib
import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import time

import pytest

from kafkasource.tools.cli.cluster_names import plain

PATIENCE_S = 120  # on however slow a machine; TAB is pressed again meanwhile, as the shell waits only two seconds
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'; source {script}"),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u; unsetopt beep; eval "$(cat {script})"'),
    "fish": (["fish", "--no-config", "-i"], "source {script}"),
}


def environment(tmp_path, **more):
    """With this `pykafka` on PATH, and no cluster but the one that is named."""
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("KAFKA_", "PYSPARK_"))}
    cache = {"KAFKASOURCE_CACHE": str(tmp_path / "cache")}  # where a broker that runs would be found
    return {**kept, **cache, "PATH": path, "HOME": str(tmp_path), "TERM": "dumb", "COLUMNS": "1000", **more}


def screen_after(shell, script, typed, shows, environment):
    """What the terminal shows when TAB has been pressed after `typed`, until it shows `shows`."""
    words, begin = START[shell]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], words, environment)
    try:
        os.write(terminal, f"{begin.format(script=script)}; echo rea''dy\n".encode())
        screen = _until(terminal, "ready\r\n", "")
        os.write(terminal, typed.encode())
        shown, end = "", time.monotonic() + PATIENCE_S
        while shows not in shown and time.monotonic() < end:
            os.write(terminal, b"\t")
            shown = _until(terminal, shows, shown, 5)
        return screen.partition("ready\r\n")[2] + shown
    finally:
        os.close(terminal)  # the shell ends
        os.waitpid(pid, 0)


def _until(terminal, text, shown, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while text not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


@pytest.mark.broker
@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", "topics describe -b {servers}"), ("bash", "read"), *((each, "write -b {servers}") for each in START)],
)
def test_a_shell_completes_a_topic_of_the_cluster(shell, words, script, kafka_broker, kafka_topic, tmp_path):
    if not shutil.which(shell):
        return
    topic = kafka_topic(prefix="completed-at-tab")
    servers = kafka_broker.bootstrap_servers
    known = environment(tmp_path, **({} if "{" in words else {"KAFKA_BOOTSTRAP_SERVERS": servers}))
    begun = topic[:-3]
    shown = screen_after(shell, script(shell), f"pykafka {words.format(servers=servers)} {begun}", topic, known)
    assert topic in shown.replace("\r\n", "")


@pytest.mark.broker
def test_groups_are_completed_of_the_cluster_that_a_file_names(script, kafka_broker, kafka_topic, tmp_path):
    topic, group = kafka_topic(), f"completed-group-{os.getpid()}"
    for words in (["write", topic], ["read", topic, "-n", "1", "--group", group]):
        asked = [sys.executable, "-m", "kafkasource", *words, "-b", kafka_broker.bootstrap_servers]
        subprocess.run(asked, input=b"v\n", check=True, timeout=PATIENCE_S)
    (tmp_path / "my client.properties").write_text(f"bootstrap.servers={kafka_broker.bootstrap_servers}\n")
    typed = f"pykafka groups describe -F ~/'my client.properties' {group[:-2]}"
    assert group in screen_after("bash", script("bash"), typed, group, environment(tmp_path))


@pytest.mark.parametrize("answers", [False, True], ids=["refuses", "accepts and says nothing"])
def test_a_cluster_that_is_away_has_no_names_and_nothing_is_said(answers, tmp_path):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        if not answers:
            server.close()
        line = f"pykafka read -b 127.0.0.1:{port} e"
        asked = [sys.executable, "-m", "kafkasource", "completion", "bash", "--names", "topics", "--line", line]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S, env=environment(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "line", ["", "pykafka", "pykafka read -b", "pykafka read 'a", "pykafka read -X x", "a | b -F c "]
)
def test_a_line_that_names_no_cluster_has_no_names_and_nothing_is_said(line, tmp_path):
    asked = [sys.executable, "-m", "kafkasource", "completion", "zsh", "--names", "groups", "--line", line]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S, env=environment(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_name_that_a_shell_would_have_to_quote_is_left_out():
    hostile = ["$(touch x)", "`id`", "a b", "a;b", "a\nb", "-rf", "~root", "*", "a'b", "a:b", "a=b", "", "grün"]
    assert plain([*hostile, "orders.v1", "_internal", "a-b", "3"]) == ["3", "_internal", "a-b", "orders.v1"]
