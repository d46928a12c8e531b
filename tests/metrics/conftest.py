"""Fixtures for tests of metrics: a folder of their own, and a browser without a window."""

import subprocess

import chromium
import pytest
from served_page import Page

from kafkasource.metrics import folder


@pytest.fixture
def metrics_folder(tmp_path):
    """This process publishes there for the time of the test."""
    folder.use(tmp_path / "metrics")
    yield tmp_path / "metrics"
    folder.use(None)


@pytest.fixture
def browse(tmp_path):
    """`browse(url) -> Page`: what headless Chromium has made of it. make test installs Chromium where apt-get can."""
    command_of = chromium.installed()
    if command_of is None:
        pytest.skip("no Chromium (apt-get install chromium): the page is not looked at")

    def open_page(url, *arguments):
        command = [command_of, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += [f"--user-data-dir={tmp_path / 'chromium'}", "--virtual-time-budget=3000", *arguments]
        done = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=90, check=True)
        return Page(done.stdout)

    return open_page
