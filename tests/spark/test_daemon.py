"""Workers that Spark forks from our daemon have our modules, and random numbers and a log of their own."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from other_sparks import FOLDERS, run_on

pytestmark = pytest.mark.spark
APP = Path(__file__).with_name("daemon_app.py")


@pytest.fixture(
    scope="module",
    params=[release if release == "4.2" else pytest.param(release, marks=pytest.mark.extended) for release in FOLDERS],
)
def workers(request, tmp_path_factory):
    return run_on(request.param, APP, tmp_path_factory.mktemp("spark"), KAFKASOURCE_LOG="INFO")["workers"]


def test_a_worker_has_what_our_tasks_import_when_it_starts(workers):
    assert [worker["missing"] for worker in workers] == [[], []]


def test_no_two_workers_draw_the_same_random_numbers(workers):
    assert len({worker["pid"] for worker in workers}) == 2
    drawn = [number for worker in workers for number in worker["random"]]
    assert len({*drawn}) == 4


def test_workers_log_at_the_level_of_the_environment(workers):
    assert [worker["level"] for worker in workers] == [logging.INFO, logging.INFO]
