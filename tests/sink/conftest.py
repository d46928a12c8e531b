"""Message sets are read here by the hand-written reader of tests/records."""

from __future__ import annotations

import sys
from pathlib import Path

RECORDS = str(Path(__file__).parent.parent / "records")
if RECORDS not in sys.path:
    sys.path.append(RECORDS)
