"""The helpers of the suites whose decoders are fuzzed here."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
HELPERS = [str(TESTS / name) for name in ("protocol", "records", "source", "sink", "group")]
sys.path += [folder for folder in HELPERS if folder not in sys.path]
