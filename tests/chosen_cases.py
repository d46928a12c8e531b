"""Tests of all pairs of two parameters, of which `make test` has some."""

import itertools

import pytest


def pairs(firsts, seconds, in_make_test):
    """Parameters: every pair. Those that are not among `in_make_test` are in make extended."""
    return [
        pytest.param(*each, marks=() if each in in_make_test else pytest.mark.extended)
        for each in itertools.product(firsts, seconds)
    ]
