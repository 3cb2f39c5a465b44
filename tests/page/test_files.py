"""Every format of ``convert`` on the page: opened, labelled, saved and opened again, with nothing lost."""

import json

import pytest

from kernelfields.formats import Document, LabelledSpan, Labelling, read_documents, write_documents
from kernelfields.formats.annotation_files import ANNOTATION_FORMATS
from kernelfields.page import LabellingSession
from kernelfields.page.files import open_file

TEXTS = ["Anna Smith lives in Zurich.", "Ben likes Oslo.", "Nobody was there."]


def session_of(file, **settings):
    known = {"words": file.words, "columns": file.columns, "file": file, "scheme": file.scheme}
    return LabellingSession(file.X, file.y, **{**known, **settings})


def labelled_spans(path, kind):
    found = read_documents(path, kind)
    return [
        [(str(span.label), span.begin, span.end) for own in doc.labellings for span in own.spans or ()] for doc in found
    ]


def documents(kind):
    first = Labelling([LabelledSpan("PER", 0, 10), LabelledSpan("LOC", 20, 26)])
    name = {"brat": "a"}.get(kind)
    found = [Document(TEXTS[0], labellings=[first], id=name and f"{name}1", metadata={})]
    return found + [Document(text, id=name and f"{name}{n}") for n, text in enumerate(TEXTS[1:], start=2)]


@pytest.mark.parametrize("kind", ["doccano", "labelstudio", "brat", "spacy", "columns", "conllu"])
def test_texts_of_all_formats(tmp_path, kind):
    if kind == "spacy":
        pytest.importorskip("spacy")
    ending = {"brat": "", "columns": ".conll"}.get(kind, ANNOTATION_FORMATS[kind].endings[0])
    path = tmp_path / f"names{ending}"
    write_documents(path, documents(kind), kind, lossy=True)
    options = {"label": "misc:NER"} if kind == "conllu" else {}
    file = open_file(str(path), **options)
    session = session_of(file)
    assert session.spans is not None
    assert session.labels()[0] == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    assert session.labels()[1] == [None] * 4
    before = file.current()
    assert file.written(session.labels()) == before or kind == "spacy"  # nothing was labelled, and nothing changes
    session.mark(1, 0, 0, 1, "PER")
    session.save()
    assert session.labels()[1] == ["B-PER", None, None, None]
    again = open_file(str(path), **options)
    assert [own or [None] * 4 for own in again.y[:2]] == session.labels()[:2]
    session.mark(1, 1, 2, 3, "LOC")
    session.done(1, 2)
    session.done(2, 0)
    session.save()
    session.close()
    last = session_of(open_file(str(path), **options))
    assert last.labels() == session.labels()
    assert last.labels()[1] == ["B-PER", "O", "B-LOC", "O"]
    if not ANNOTATION_FORMATS[kind].as_labels:
        assert labelled_spans(path, kind)[:2] == [
            [("PER", 0, 10), ("LOC", 20, 26)],
            [("PER", 0, 3), ("LOC", 10, 14)],
        ]
        assert [doc.text for doc in read_documents(path, kind)] == TEXTS
    # A span that is corrected, and one that is taken away.
    last.mark(0, 0, 0, 1, "PER")
    last.mark(0, 1, 4, 5, None)
    last.save()
    last.close()
    assert session_of(open_file(str(path), **options)).labels()[0] == ["B-PER", "O", "O", "O", "O", "O"]


def test_raw_text_becomes_a_column_file_with_its_offsets(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    session = session_of(open_file(str(path)), classes=["PER"])
    assert session.labels() == [[None] * 6, [None] * 4, [None] * 4]
    assert session.state()["name"] == "notes.conll"
    session.mark(0, 0, 0, 2, "PER")
    session.save()
    session.change(1, 0, [[0, ["B-PER"]]])
    session.save()
    session.close()
    assert path.read_text() == "\n".join(TEXTS) + "\n"
    again = open_file(str(path))
    assert again.path.name == "notes.conll"
    assert again.y[0][:3] == ["B-PER", "I-PER", None]
    assert again.y[1][0] == "B-PER"
    assert [doc.text for doc in read_documents(tmp_path / "notes.conll")] == TEXTS


def test_ids_and_relations_of_brat_stay(tmp_path):
    (tmp_path / "a.txt").write_text(TEXTS[0])
    (tmp_path / "a.ann").write_text("T1\tPER 0 10\tAnna Smith\nT2\tLOC 20 26\tZurich\nR1\tlives Arg1:T1 Arg2:T2\n")
    session = session_of(open_file(str(tmp_path)))
    session.mark(0, 0, 3, 4, "X")
    session.save()
    lines = (tmp_path / "a.ann").read_text().splitlines()
    assert {"T1\tPER 0 10\tAnna Smith", "T2\tLOC 20 26\tZurich", "R1\tlives Arg1:T1 Arg2:T2"} <= set(lines)
    assert (tmp_path / "a.txt").read_text() == TEXTS[0]
    assert open_file(str(tmp_path / "a.ann")).y == session.labels()


@pytest.mark.parametrize("kind", ["textgrid", "elan"])
def test_intervals_of_a_tier_are_labelled_in_another(tmp_path, kind):
    words = [LabelledSpan(word, k, k + 1.0) for k, word in enumerate(["we", "saw", "it"])]
    tiers = [Labelling(words, annotator="words"), Labelling([LabelledSpan("PRON", 0.0, 1.0)], annotator="pos")]
    path = tmp_path / ("a.TextGrid" if kind == "textgrid" else "a.eaf")
    write_documents(path, [Document(labellings=tiers, duration=(0.0, 4.0), id="a")], kind)
    file = open_file(str(path))
    session = session_of(file)
    assert session.spans is None
    assert file.words == [["we", "saw", "it"]]
    assert session.labels() == [["PRON", None, None]]
    assert read_documents(path, kind) == read_documents(path, kind)
    session.mark(0, 0, 2, 3, "PRON")
    session.mark(0, 1, 1, 2, "VERB")
    session.save()
    session.mark(0, 2, 0, 1, None)
    session.save()
    session.close()
    again = open_file(str(path))
    assert again.y == [[None, "VERB", "PRON"]]
    found = read_documents(path, kind)[0]
    assert [(span.label, span.begin, span.end) for span in found.labellings[0].spans] == [
        (span.label, span.begin, span.end) for span in words
    ]
    new = open_file(str(path), label="notes")
    assert new.y == [[None, None, None]]
    assert new.words == [["we", "saw", "it"]]


def test_labels_of_a_column_of_conllu_and_of_csv(tmp_path):
    path = tmp_path / "trees.conllu"
    rows = [[str(k + 1), word, "_", tag, *"______"] for k, (word, tag) in enumerate([("we", "PRON"), ("ran", "_")])]
    path.write_text("# sent_id = 1\n" + "\n".join("\t".join(row) for row in rows) + "\n\n")
    session = session_of(open_file(str(path)))
    assert session.spans is None
    assert session.labels() == [["PRON", None]]
    before = path.read_text()
    session.save()
    assert path.read_text() == before
    session.mark(0, 0, 1, 2, "VERB")
    session.save()
    assert path.read_text() == before.replace("ran\t_\t_", "ran\t_\tVERB")
    table = tmp_path / "days.csv"
    table.write_text("day,x,state\n1,0.5,busy\n1,0.7,\n2,0.1,?\n")
    session = session_of(open_file(str(table), sequence="day", label="state"))
    assert session.labels() == [["busy", None], [None]]
    session.mark(1, 0, 0, 1, "idle")
    session.save()
    assert table.read_text() == "day,x,state\n1,0.5,busy\n1,0.7,?\n2,0.1,idle\n"


def test_labels_of_an_annotator_go_to_a_file_of_their_own(tmp_path):
    path, own = tmp_path / "names.jsonl", tmp_path / "names.anna.jsonl"
    write_documents(path, documents("doccano"))
    before = path.read_bytes()
    session = session_of(open_file(str(path), output=str(own), blind=True))
    assert all(entry is None for labels in session.labels() for entry in labels)
    session.mark(1, 0, 0, 1, "PER")
    session.save()
    session.close()
    assert path.read_bytes() == before
    assert open_file(str(path), output=str(own), blind=True).y[1] == ["B-PER", None, None, None]
    assert json.loads(own.read_text().splitlines()[0])["text"] == TEXTS[0]


def test_what_cannot_be_opened_is_one_line(tmp_path):
    (tmp_path / "a.crfsuite").write_bytes(b"")
    with pytest.raises(ValueError, match=r"the page labels files of columns, .* is of format crfsuite"):
        open_file(str(tmp_path / "a.crfsuite"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="a folder without files of brat, Praat or ELAN"):
        open_file(str(tmp_path / "empty"))
    doc = {"text": "New York", "label": [[0, 6, "LOC"]]}
    (tmp_path / "cut.jsonl").write_text(json.dumps(doc))
    with pytest.raises(ValueError, match=r"document 1: the span 'LOC'.*cuts the word 'York'"):
        open_file(str(tmp_path / "cut.jsonl"))
