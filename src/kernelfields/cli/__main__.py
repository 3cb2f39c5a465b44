"""``python -m kernelfields.cli``, the ``kernelfields`` command."""

from kernelfields.cli.app import app

app(prog_name="kernelfields")
