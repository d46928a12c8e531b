#!/bin/sh
# scripts/install_kerberos.sh VENV: for the tests of GSSAPI in `make extended`, MIT's KDC (tests/kdc.py starts one in a
# temporary folder), and the package `gssapi` in VENV with the headers that pip builds it with. Installed where that works
# without asking; where it does not, these tests skip, and `make extended` fails for it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
if ! { command -v krb5kdc && command -v kadmin.local && command -v krb5-config; } >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Kerberos is missing (tests log in by GSSAPI): installing a KDC and the headers with apt-get" >&2
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends krb5-kdc krb5-admin-server libkrb5-dev; } >&2 || true
fi
if command -v krb5-config >/dev/null; then
    "$1/bin/python" -c 'import gssapi' 2>/dev/null || "$1/bin/python" -m pip install -q gssapi || true
fi
