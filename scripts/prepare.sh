#!/bin/sh
# Makes a virtual environment with this package in it, in steps: prepare.sh STEP FOLDER PYSPARK_VERSION EXTRAS.
# venv          the environment, with pip and uv; both other steps make it where it is missing
# requirements  pyspark (400 MB) and all else that the package needs. Touches no file of this folder: several may run side by side
# package       the package alone. The kernels are built in this folder: one at a time; requirements may run beside it
# What the machine lacks gives one line with the remedy. Java, and for the tests a JDK (they run Kafka's own classes from
# source files) and Chromium (they open the metrics page), are installed where that works without asking. Where it does
# not, the tests that need them skip, and `make test` fails for it (tests/allowed_skips.py).
set -eu
step=$1 venv=$2 pyspark=$3 extras=$4
say() { echo "$*" >&2; exit 1; }

java_version() { # major version of the Java that Spark will use, 0 when there is none
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    "$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1 | grep . || echo 0
}
if [ "$(java_version)" -lt 17 ] && [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Java 17 is missing: installing it with apt-get" >&2
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy openjdk-17-jre-headless; } >&2 || true
fi
[ "$(java_version)" -ge 17 ] ||
    say "Java 17 or newer is missing (Spark needs it): install it (apt-get install openjdk-17-jre-headless, brew install openjdk@17) or set JAVA_HOME"

case "$step,$extras," in package,*,dev,*)
    if ! "${JAVA_HOME:+$JAVA_HOME/bin/}java" --list-modules 2>/dev/null | grep -q '^jdk\.compiler' && [ -z "${JAVA_HOME:-}" ] &&
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "A JDK is missing (tests compare with Kafka's own classes): installing it with apt-get" >&2
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy "openjdk-$(java_version)-jdk-headless"; } >&2 || true
    fi
    if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null &&
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Chromium is missing (the metrics page is opened in it): installing it with apt-get" >&2
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium; } >&2 || true
    fi ;;
esac

python=""
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || say "Python 3.10 or newer is missing: install it, or name one with make PYTHON=/path/to/python3"
"$python" -c 'import ensurepip' 2>/dev/null || say "$python has no venv: install it (apt-get install python3-venv)"
case "${KAFKASOURCE_KERNEL:-auto}" in require | abi3) command -v "${CC:-cc}" >/dev/null 2>&1 ||
    say "a C compiler is missing (the kernel is built and tested): install one (apt-get install gcc, xcode-select --install)" ;;
esac

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check"

log=$(mktemp); trap 'rm -f "$log" "$log.txt" "$log.cfg"' EXIT
# Stop at the first failure, and show the installer's own words then.
run() { "$@" >"$log" 2>&1 || { cat "$log" >&2; say "that failed, its words are above: $*"; }; }

# uv installs in a tenth of pip's time. It asks pip's index, and where it cannot (a proxy, a login that pip alone knows), pip
# does it.
install() {
    index=$($pip config list | sed -n "s/^\(global\|install\|:env:\)\.index-url='\(.*\)'$/\2/p" | tail -n 1)
    "$venv/bin/uv" pip install -q --python "$venv/bin/python" ${index:+--index-url "$index"} "$@" >"$log" 2>&1 ||
        run $pip install "$@"
}

[ -x "$venv/bin/uv" ] || run $pip install -q --no-compile uv
case $step in
requirements)
    # pip for pyspark: it keeps the wheel that it makes of it, uv makes it anew each time. The wheel is not compressed: its jars
    # are, and it takes 14 s of processor time in place of 35. Python compiles the few files that are used.
    printf '[bdist_wheel]\ncompression = stored\n' >"$log.cfg"
    export DIST_EXTRA_CONFIG="$log.cfg" # which setuptools reads
    run $pip install -q --no-compile --no-deps "pyspark==$pyspark"
    "$venv/bin/python" scripts/requirements.py "$extras" >"$log.txt"
    install -r "$log.txt" "pyspark[sql]==$pyspark"
    # Spark puts pyspark.zip first on the path of each Python process that it starts, and Python keeps no compiled code of
    # what it imports from a zip: 0.7 s of processor time a process. The installed files are the same, and compiled.
    ln -sfn ../../.. "$venv"/lib/python3.*/site-packages/pyspark/python/lib/pyspark.zip ;;
package)
    [ "${KAFKASOURCE_KERNEL:-auto}" = skip ] || echo "compiling the kernels with ${CC:-cc}: about half a minute"
    # compat: a plain path entry. Spark looks for `pyspark_*` modules along sys.path, where the default editable hook hides them.
    install --no-deps -e . --config-settings editable_mode=compat ;;
esac
