"""The description of the package on an index: the README without links that lead nowhere there.

Links and pictures of the README are relative, so that they work in every copy of the repository and in the site; the
page of an index has neither. If the environment variable KERNELFIELDS_URL names the public repository, such as
https://example.org/owner/kernelfields, they lead to the files of this version there, and the package has urls. Without
it links become their text, and pictures are left out.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"<picture>.*?</picture>\n+(\*[^*].*?\*\n+)?", re.DOTALL)
MARK = re.compile(r"<!--.*?-->\n?", re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:|#)([^)\s]+)\)")
SOURCE = re.compile(r'\b(src|srcset)="(?!\w+:)([^"]+)"')


def describe(readme: str, url: str | None, version: str) -> str:
    """Return a README whose relative links lead to files of a version at ``url``, or are text if there is none."""
    readme = MARK.sub("", readme)
    if url is None:
        return LINK.sub(r"\1", PICTURE.sub("", readme))
    readme = SOURCE.sub(rf'\1="{url}/raw/v{version}/\2"', readme)
    return LINK.sub(rf"[\1]({url}/blob/v{version}/\2)", readme)


class Description(MetadataHookInterface):
    """The description and the urls of the package."""

    def update(self, metadata: dict) -> None:
        """Write both into the metadata of the package."""
        url = os.environ.get("KERNELFIELDS_URL", "").rstrip("/") or None
        text = describe((Path(self.root) / "README.md").read_text(encoding="utf-8"), url, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        places = {"Source": "", "Issues": "/issues", "Changelog": f"/blob/v{metadata['version']}/CHANGELOG.md"}
        metadata["urls"] = {} if url is None else {name: url + place for name, place in places.items()}
