#!/bin/sh
# MIT's Kerberos KDC for the tests of GSSAPI in `make extended` (tests/kdc.py starts one in a temporary folder). Installed
# where that works without asking; where it does not, these tests skip, and `make extended` fails for it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
if ! { command -v krb5kdc && command -v kadmin.local; } >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "A Kerberos KDC is missing (tests log in by GSSAPI): installing it with apt-get" >&2
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends krb5-kdc krb5-admin-server; } >&2 || true
fi
