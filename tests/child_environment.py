"""Environments for child processes of tests."""

import os
from pathlib import Path

import kafkasource


def with_package(**more):
    """This process's, in which a child finds this package wherever it starts."""
    return {**os.environ, "PYTHONPATH": str(Path(kafkasource.__file__).parents[1]), **more}
