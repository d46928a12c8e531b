"""`python -m kafkasource` is `pykafka`."""

import sys

from kafkasource.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
