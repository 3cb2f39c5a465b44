"""The version of the package, also without an installation: workers of a cluster compare their versions."""

VERSION = "0.3.0"
