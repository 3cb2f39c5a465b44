"""``python -m kernelfields.cli`` is the ``kernelfields`` command."""

from kernelfields.cli.app import app

app(prog_name="kernelfields")
