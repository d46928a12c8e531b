"""The racers' packages, installed once into the cache. This project does not require them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

from kafkasource.testing.broker import cache_dir
from lab.benchmarks.lab import ROOT

# Requirements by racer. PyFlink also asks for Apache Beam, pandas and pemja: only Python functions need them.
PACKAGES = {
    "kafkarrow 0.1.1": ["kafkarrow==0.1.1"],
    "PyFlink 2.3.0": [
        *("apache-flink==2.3.0", "apache-flink-libraries==2.3.0", "py4j==0.10.9.7", "ruamel.yaml>=0.18.4"),
        *("typing_extensions", "cloudpickle>=2.2.0", "python-dateutil<3", "six", "pytz"),
    ],
}


def environment(racer: str) -> dict[str, str]:
    """The environment of a process that imports them. Raises RuntimeError where they do not install."""
    if racer not in PACKAGES:
        return dict(os.environ)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_dir() / f"{racer.replace(' ', '-')}-{python}"
    if not folder.exists():
        partial = tempfile.mkdtemp(prefix=f"{folder.name}.", dir=cache_dir())
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run([*pip, "--target", partial, *PACKAGES[racer]], capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(partial)
            raise RuntimeError(f"it does not install: {done.stderr.strip()[-150:]}")
        os.rename(partial, folder)  # so a folder of this name is complete
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
