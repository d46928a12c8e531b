#!/bin/sh
# Makes a virtual environment at one end of what pyproject.toml promises: ends.sh FOLDER lowest|highest.
# lowest: the oldest Python here that it allows, and the lowest version that it allows of each package it names for the
# build and for users; what those need in turn is the newest that fits. highest: Python 3.14, from Debian's packages where
# it is not here, and the newest of everything. What only tests use (the extra `dev`) is the newest that fits at both ends.
# pip cannot choose the lowest version; uv (from PyPI) can.
set -eu
venv=$1 end=$2
say() { echo "$*" >&2; exit 1; }

scripts=$(dirname "$0")
case $end in
lowest) resolution=lowest-direct python=$("$scripts/find_python.sh" oldest) ;;
highest)
    resolution=highest
    python=$("$scripts/find_python.sh" 3.14 2>/dev/null || "$scripts/debian_python.sh" 3.14 build/python3.14 || "$scripts/find_python.sh" newest)
    ;;
*) say "ends.sh FOLDER lowest|highest, not $end" ;;
esac
echo "$venv: $("$python" -V), $end versions"

rm -rf "$venv"
"$python" -m venv --without-pip "$venv" # Debian's has none to give
log=$(mktemp); trap 'rm -f "$log"' EXIT
run() { "$@" >"$log" 2>&1 || { cat "$log" >&2; say "that failed: $*"; }; }
pip="$("$scripts/find_python.sh" newest) -m pip --disable-pip-version-check --python $venv/bin/python"
run $pip install uv tomli
# Left out: pyspark[connect] and protobuf for pyspark, which are newer than what older OpenTelemetry takes (only tests with
# Spark use them), and gssapi, which pip builds with headers that the machine may lack.
"$venv/bin/python" - "$venv" <<'PYTHON'
import sys

import tomli

with open("pyproject.toml", "rb") as file:
    whole = tomli.load(file)
extras = whole["project"]["optional-dependencies"]
del extras["docs"]  # what builds the site: no user needs it, and it wants a newer Python than the oldest one
dev = [one for one in extras.pop("dev") if not one.startswith("pyspark[connect]")]
users = [one for extra in extras.values() for one in extra if not one.startswith(("gssapi", "protobuf"))]
named = whole["build-system"]["requires"] + whole["project"]["dependencies"] + users
for name, lines in (("named", named), ("dev", dev)):
    with open(f"{sys.argv[1]}/{name}.txt", "w") as file:
        file.writelines(f"{line}\n" for line in lines)
PYTHON
run "$venv/bin/uv" pip compile --quiet --resolution "$resolution" --python "$venv/bin/python" \
    --output-file "$venv/versions.txt" "$venv/named.txt"
# pip installs them: it has kept its build of pyspark, whose making takes minutes.
run $pip install --no-compile --requirement "$venv/versions.txt" --requirement "$venv/dev.txt"
# Debian's has no headers either: the kernel of the stable ABI, which .venv has built, serves it.
KAFKASOURCE_KERNEL=$("$scripts/kernel_build.sh" "$venv/bin/python" .venv/bin/python | sed s/abi3/require/) run $pip install --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
touch "$venv/.ready"
