"""The version of the package: the one place that says it. A literal, which setuptools reads without importing."""

__version__ = "0.1.0"
