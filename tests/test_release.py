"""What a release says of itself holds together: versions, oldest dependencies, the matrix of the workflow."""

import importlib.metadata
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import kernelfields
from release.check import oldest_allowed

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version_is_told_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == PROJECT["version"]
    entries = re.findall(r"^## \[(\S+)\]", changelog, re.MULTILINE)
    assert next(entry for entry in entries if entry != "Unreleased") == PROJECT["version"]
    assert kernelfields.__version__ == PROJECT["version"]
    assert importlib.metadata.version("kernelfields") == PROJECT["version"]


def test_every_dependency_has_an_oldest_version():
    pinned = oldest_allowed(PROJECT["dependencies"])
    assert [each.split("==")[0] for each in pinned] == [each.split(">=")[0] for each in PROJECT["dependencies"]]
    with pytest.raises(ValueError, match="numpy<3"):
        oldest_allowed(["numpy<3"])


def test_the_pythons_that_are_tried_are_those_that_are_promised():
    promised = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    workflow = ROOT / ".github" / "workflows" / "tests.yml"
    if not workflow.exists():
        pytest.skip("the workflow is in the repository, not in the sdist")
    tried = re.search(r"python: \[(.*)\]", workflow.read_text(encoding="utf-8"))[1]
    assert re.findall(r"3\.\d+", tried) == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


@pytest.mark.parametrize("url", [None, "https://example.org/owner/kernelfields"])
def test_an_index_page_has_no_link_that_leads_nowhere(url, monkeypatch):
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    monkeypatch.setenv("KERNELFIELDS_URL", f"{url}/" if url else "")
    metadata = {"version": "1.2.3"}
    hooks.Description(str(ROOT), {}).update(metadata)
    text = metadata["readme"]["text"]
    places = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    if url is None:
        assert places == []
        assert metadata["urls"] == {}
        assert "![" not in text
        assert "<img" not in text
    else:
        assert len(places) > 20
        for place in places:
            kind, name = re.fullmatch(rf"{url}/(raw|blob)/v1.2.3/([^#]+)(?:#.*)?", place).groups()
            assert (ROOT / name).exists()
            assert (kind == "raw") == (Path(name).suffix == ".png")
        assert metadata["urls"]["Source"] == url
    assert "pip install kernelfields" in text
    assert "<!--" not in text
