#!/bin/sh
# Prints a Python here that pyproject.toml allows: find_python.sh oldest|newest, or find_python.sh 3.11 for that one.
set -eu
case $1 in
oldest) minors="10 11 12 13 14" ;;
newest) minors="14 13 12 11 10" ;;
3.1[0-4]) minors=${1#3.} ;;
*) echo "find_python.sh oldest|newest|3.10..3.14, not $1" >&2; exit 1 ;;
esac
for minor in $minors; do
    # pyenv's own name of a version that is not its default one does not start: the file behind it does.
    for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python; do
        if "$candidate" -c 'import ensurepip' >/dev/null 2>&1; then echo "$candidate"; exit; fi
    done
done
echo "find_python.sh $1: no such Python from 3.10 to 3.14 with ensurepip was found: install one (apt-get install python3-venv)" >&2
exit 1
