#!/bin/sh
# Prints how a Python here builds the kernels (KAFKASOURCE_KERNEL): kernel_build.sh PYTHON [BUILT_BY]. For the stable ABI, as
# the wheels of a release are, where Python has what it takes: then those that another Python has built serve this one too.
set -eu
stable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; }
if [ $# = 2 ] && stable "$1" && stable "$2"; then echo skip; elif stable "$1"; then echo abi3; else echo require; fi
