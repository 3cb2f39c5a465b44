"""``python -m kernelfields.command`` is the ``kernelfields`` command."""

from kernelfields.command.application import app

app(prog_name="kernelfields")
