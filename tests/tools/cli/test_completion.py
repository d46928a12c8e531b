"""A shell completes `pykafka` with the script that `pykafka completion` prints; bash itself is asked, and zsh and fish
where they are installed."""

import importlib.util
import shutil
import subprocess
import sys

import pytest

from kafkasource.tools.cli import main

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("shtab") is None, reason="needs shtab: pip install 'kafkasource[cli]'"
)

# At TAB, bash fills these variables and calls the function that `complete` has named.
BASH = """
source "$1"; shift
called=$(complete -p pykafka); called=${called##* -F }; called=${called%% *}
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
"$called" pykafka "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pykafka gro", {"groups"}),
        ("pykafka broker st", {"start", "stop", "status"}),
        ("pykafka read events --fo", {"--follow", "--format"}),
        ("pykafka read events --format p", {"parquet"}),
        ("pykafka completion z", {"zsh"}),
    ],
)
def test_bash_completes_commands_options_and_values(line, expected, script):
    bash = shutil.which("bash") or "/bin/bash"
    words = [bash, "--norc", "-c", BASH, "bash", script("bash"), *line.split(" ")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert (set(done.stdout.split()), done.stderr) == (expected, "")


def test_bash_completes_files_where_a_file_is_meant(script, tmp_path):
    (tmp_path / "mirror.toml").touch()
    words = ["bash", "--norc", "-c", BASH, "bash", script("bash"), "pykafka", "mirror", f"{tmp_path}/mir"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.stdout.split() == [f"{tmp_path}/mirror.toml"]


def test_zsh_and_fish_take_their_scripts(script):
    for shell, check in (("zsh", ["zsh", "-fn"]), ("fish", ["fish", "--no-execute"])):
        file = script(shell)
        if shutil.which(shell):
            done = subprocess.run([*check, file], capture_output=True, text=True, timeout=30)
            assert (done.returncode, done.stderr) == (0, "")


def test_without_shtab_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err == "pykafka: this needs shtab: pip install 'kafkasource[cli]'\n"
