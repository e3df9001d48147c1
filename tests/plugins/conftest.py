"""The external plugin is a distribution of its own; tests/packaging builds, installs and tests it."""

collect_ignore = ["external_plugin"]
