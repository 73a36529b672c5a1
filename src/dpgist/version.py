"""The version, in the one place that the build and every artefact read it from."""

__version__ = "0.1.0"
