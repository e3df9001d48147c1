"""The version of Ren, equal to the one in all six pyproject.toml files (tests/packaging/test_manifests.py)."""

VERSION = "0.1.0"
