"""Sinksweep: a durable inbox and outbox that makes any agent retryable."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("sinksweep")
except PackageNotFoundError:
    VERSION = "unknown"
