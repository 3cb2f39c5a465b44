"""Without PyTorch, the package of layers is refused in a line that names what to install."""

import subprocess
import sys


def test_the_package_names_what_it_needs():
    program = (
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'torch' else found(name, *rest)\n"
        "import kernelfields.layers\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr.splitlines()[-1] == (
        "ImportError: kernelfields.layers needs PyTorch: pip install 'kernelfields[torch]'"
    )
