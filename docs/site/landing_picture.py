"""Renew the pictures of the first page from the example that they show: python docs/site/landing_picture.py."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "start" / "plot_digits_in_order.py"
STYLES = {"light": "default", "dark": "dark_background"}


def main() -> None:
    """Write the first figure of the example, for light and for dark screens."""
    for name, style in STYLES.items():
        with plt.style.context(style):
            runpy.run_path(str(EXAMPLE))
            plt.figure(1).savefig(ROOT / "docs" / "images" / f"digits-{name}.png", dpi=160, transparent=True)
            plt.close("all")


if __name__ == "__main__":
    main()
