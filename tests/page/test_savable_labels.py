"""A label counts only where the file can hold it: what is acknowledged can be saved, in every format."""

import json

import pytest

from kernelfields.page import LabellingSession
from kernelfields.page.files import open_file

TEXTGRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2
tiers? <exists>
size = 1
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 2
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 1
            text = "he"
        intervals [2]:
            xmin = 1
            xmax = 2
            text = "ran"
"""
FILES = {
    "a.conll": "He\tO\nran\tO\n\n",
    "b.conll": "He O\nran O\n\n",
    "words.conll": "He\nran\n",
    "c.conllu": "# text = He ran\n1\tHe\t_\tX\t_\t_\t_\t_\t_\t_\n2\tran\t_\tX\t_\t_\t_\t_\t_\t_\n\n",
    "d.csv": "sequence,speed,label\n1,0.5,a\n1,0.7,b\n",
    "e.jsonl": '{"text": "He ran"}\n',
    "f.json": '[{"data": {"text": "He ran"}}]',
    "g.ann": "",
    "h.txt": "He ran\n",
    "i.TextGrid": TEXTGRID,
}
LABELS = [
    "NOUN",
    "first name",
    "B-x",
    "I-x",
    "a|b",
    "a\tb",
    'q"uote',
    "é",
    "-",
    "#",
    "_",
    "?",
    3,
    "x" * 200,
    "<&>",
    ",",
    "'",
]


def opened(tmp_path, name, scheme):
    path = tmp_path / name
    path.write_text(FILES[name])
    if name == "g.ann":
        path.with_suffix(".txt").write_text("He ran.")
    file = open_file(str(path), **({"sequence": "sequence"} if name == "d.csv" else {}))
    X = file.X if file.words is None else file.words
    return LabellingSession(X, file.y, scheme=scheme, words=file.words, columns=file.columns, file=file)


@pytest.mark.parametrize("scheme", [None, "auto", "bio", "bioes"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_acknowledged_can_be_saved(tmp_path, name, scheme):
    kept = 0
    for number, label in enumerate(LABELS):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            session = opened(folder, name, scheme)
        except ValueError:  # refused before there is a page
            continue
        for ask in (
            lambda session=session, label=label: session.mark(0, session.versions[0], 0, 1, label),
            lambda session=session, label=label: session.change(0, session.versions[0], [[1, [label]]]),
            lambda session=session, label=label: session.change(0, session.versions[0], [[1, [label, "other"]]]),
        ):
            try:
                ask()
            except (ValueError, TypeError):
                continue
            kept += 1
            assert session.save().startswith("wrote ")
        session.close()
    assert kept or scheme is not None


@pytest.mark.parametrize("name", ["e.jsonl", "f.json"])
def test_labels_without_a_scheme_are_saved_and_read_again(tmp_path, name):
    session = opened(tmp_path, name, None)
    session.mark(0, 0, 0, 1, "NOUN")
    session.mark(0, 1, 1, 2, "VERB")
    session.save()
    session.close()
    assert open_file(str(tmp_path / name)).y == [["NOUN", "VERB"]]


@pytest.mark.parametrize("content", [b"He\tO\r\r\nran\tO\r\r\n\n"])
def test_a_file_that_cannot_be_saved_is_not_opened(tmp_path, content):
    (tmp_path / "w.conll").write_bytes(content)
    file = open_file(str(tmp_path / "w.conll"))
    with pytest.raises(ValueError, match="is not opened, because it could not be saved"):
        LabellingSession(file.words, file.y, scheme=None, words=file.words, file=file)
    assert not list(tmp_path.glob(".*"))


def test_a_journal_with_labels_that_the_file_cannot_hold_is_opened_without_them(tmp_path):
    session = opened(tmp_path, "g.ann", None)
    path = tmp_path / "g.journal"
    session.close()
    file = open_file(str(tmp_path / "g.ann"))
    session = LabellingSession(file.words, file.y, words=file.words, file=file, journal=path)
    session.change(0, 0, [[0, ["B-PER"]]])
    session.close()
    first, line = path.read_text().splitlines()
    entry = json.loads(line) | {"changes": [[0, ["B-first name"]]]}
    path.write_text("\n".join([first, json.dumps(entry), ""]))
    with pytest.warns(UserWarning, match=r"left out \(1\): g: .*brat has no spaces in labels"):
        session = LabellingSession(file.words, file.y, words=file.words, file=file, journal=path)
    assert session.labels()[0][0] == "O"
    session.save()
    session.close()
