"""The version of the package, which need not be installed to be used: workers of a cluster compare theirs."""

VERSION = "0.2.0"
