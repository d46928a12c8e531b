"""A mirror on a Spark cluster:

    spark-submit --master spark://host:7077 examples/mirror.py examples/mirror.toml

The same as `pykafka mirror FILE`, which runs it on this machine alone; takes the same arguments. kafkasource is to be
installed on all nodes, or given by --py-files (docs/mirror.md).
"""

import sys

from kafkasource.tools.cli import main

if __name__ == "__main__":
    sys.exit(main(["mirror", *sys.argv[1:]]))
