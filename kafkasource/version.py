"""The version of the package, and nowhere else. A literal, because setuptools reads it without importing."""

__version__ = "0.1.0"
