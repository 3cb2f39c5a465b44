"""Every pair of formats of annotated texts and time lines: nothing is lost, or it is refused before it is written."""

from itertools import pairwise, product

import pytest
from drawn_documents import draw_documents, draw_time_lines

from kernelfields.formats import find_losses, read_documents, write_documents

ENDINGS = {
    "doccano": ".jsonl",
    "labelstudio": ".json",
    "conllu": ".conllu",
    "columns": ".conll",
    "brat": "",
    "spacy": ".spacy",
    "text": ".txt",
    "textgrid": "",
    "elan": "",
}
OF_TEXTS = ["doccano", "labelstudio", "conllu", "columns", "brat", "spacy"]
NEXT_TO_EACH_OTHER = set(pairwise([*OF_TEXTS, OF_TEXTS[0]]))
OF_TIME_LINES = ["labelstudio", "textgrid", "elan"]
DRAWN = {
    "plain": {"plain": True},
    "overlapping": {"overlap": True},
    "annotators": {"annotators": 3, "predicted": True},
    "partial": {"partial": True},
}


def needs(*formats):
    if "spacy" in formats:
        pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'kernelfields[spacy]'")


class Files:
    """Writes documents to files of their own and reads them again."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def path(self, name):
        self.count += 1
        return self.folder / f"{self.count}{ENDINGS[name]}"

    def through(self, documents, name, **settings):
        path = self.path(name)
        write_documents(path, documents, name, **settings)
        return read_documents(path, name)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def check_pair(files, documents, first, second):
    held = files.through(documents, first, lossy=True)
    assert find_losses(held, first) == []
    assert files.through(held, first) == held
    if found := find_losses(held, second):
        path = files.path(second)
        with pytest.raises(ValueError, match=r"would lose .* Nothing was written"):
            write_documents(path, held, second)
        assert not path.exists()
        held = files.through(held, second, lossy=True)
        assert find_losses(held, second) == []
        assert all(str(loss) for loss in found)
    other = files.through(held, second)
    assert other == held
    if not find_losses(other, first):
        assert files.through(other, first) == held


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(*pair, marks=[] if pair in NEXT_TO_EACH_OTHER else [pytest.mark.slow])
        for pair in product(OF_TEXTS, OF_TEXTS)
    ],
)
def test_texts_survive_every_pair_of_formats(files, first, second, drawn):
    needs(first, second)
    check_pair(files, draw_documents(7, **DRAWN[drawn]), first, second)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("first", "second"), list(product(OF_TIME_LINES, OF_TIME_LINES)))
def test_time_lines_survive_every_pair_of_formats(files, first, second, overlap):
    check_pair(files, draw_time_lines(3, overlap=overlap, predicted=overlap), first, second)


@pytest.mark.parametrize("name", OF_TEXTS)
def test_documents_without_losses_are_written_and_read_as_they_are(files, name):
    needs(name)
    documents = draw_documents(1, plain=True)
    assert find_losses(documents, name) == []
    assert files.through(documents, name) == documents


@pytest.mark.parametrize("name", OF_TIME_LINES)
def test_time_lines_without_losses_are_written_and_read_as_they_are(files, name):
    documents = draw_time_lines(1)
    if name == "textgrid":
        documents = [document for document in documents if not document.metadata]
    assert find_losses(documents, name) == []
    assert files.through(documents, name) == documents
