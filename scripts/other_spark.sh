#!/bin/sh
# Another release of pyspark on top of a virtual environment that has all else: other_spark.sh FOLDER PYSPARK_VERSION BASE.
# FOLDER gets pyspark alone and finds the rest, this package too, in BASE: a few seconds in place of half a minute.
set -eu
venv=$1 pyspark=$2 base=$PWD/$3
rm -rf "$venv"
"$base/bin/python" -m venv --without-pip "$venv"
log=$(mktemp); trap 'rm -f "$log"' EXIT
"$base/bin/python" -m pip --disable-pip-version-check --python "$venv/bin/python" install --no-compile --no-deps "pyspark==$pyspark" >"$log" 2>&1 ||
    { cat "$log" >&2; echo "pip could not install pyspark $pyspark (its words are above)" >&2; exit 1; }
packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
here=$(packages "$venv")
# After pip: it would take what lies in BASE for installed. The lines come behind the folder's own packages on the path.
printf '%s\n' "$(packages "$base")" "$PWD" >"$here/base.pth"
ln -sfn ../../.. "$here/pyspark/python/lib/pyspark.zip" # as in prepare.sh
touch "$venv/.ready"
