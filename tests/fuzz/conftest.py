"""The helpers of the suites whose decoders are fuzzed here."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS / name) for name in ("protocol", "records", "source") if str(TESTS / name) not in sys.path]
