#!/bin/sh
# Prints the oldest or the newest Python here that pyproject.toml allows: find_python.sh oldest|newest.
set -eu
case $1 in
oldest) minors="10 11 12 13 14" ;;
newest) minors="14 13 12 11 10" ;;
*) echo "find_python.sh oldest|newest, not $1" >&2; exit 1 ;;
esac
for minor in $minors; do
    # pyenv's own name of a version that is not its default one does not start: the file behind it does.
    for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python; do
        if "$candidate" -c 'import ensurepip' >/dev/null 2>&1; then echo "$candidate"; exit; fi
    done
done
echo "no Python from 3.10 to 3.14 with ensurepip was found: install one (apt-get install python3-venv)" >&2
exit 1
