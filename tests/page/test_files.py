"""Every format of ``convert`` on the page: opened, labelled, saved and opened again, with nothing lost."""

import json
import shlex
import subprocess
import sys

import pytest

from kernelfields.formats import Document, LabelledSpan, Labelling, read_documents, write_documents
from kernelfields.formats.annotation_files import ANNOTATION_FORMATS
from kernelfields.page import LabellingSession
from kernelfields.page.files import open_file, read_guidelines

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
    before = file.read_content()
    assert file.with_labels(session.labels()) == before or kind == "spacy"  # nothing was labelled, and nothing changes
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
    assert open_file(str(tmp_path / "cut.jsonl")).words == [["New", "Yo", "rk"]]


def test_items_have_the_names_of_their_file(tmp_path):
    table = tmp_path / "days.csv"
    table.write_text("day,x\nmonday,0.5\nmonday,0.7\n7,0.1\n")
    session = session_of(open_file(str(table), sequence="day"), classes=["idle"])
    assert [session.title(item) for item in range(2)] == ["monday", "day 7"]
    assert [entry["name"] for entry in session.queue()] == ["monday", "day 7"]
    assert [entry["item"] for entry in session.queue(text="Monday")] == [0]
    assert session.show(1)["name"] == "day 7"
    with pytest.raises(ValueError, match="monday has 2 positions, and none from 1 to 5"):
        session.mark(0, 0, 1, 5, "idle")
    with pytest.raises(ValueError, match="1 position of day 7 have no label yet"):
        session.done(1, 0)
    trees = tmp_path / "trees.conllu"
    row = "\t".join(["1", "ran", "_", "VERB", *"______"])
    trees.write_text(f"# sent_id = weblog-12\n{row}\n\n# sent_id = 3\n{row}\n\n{row}\n\n")
    assert open_file(str(trees)).names == ["weblog-12", "id 3", None]
    columns = tmp_path / "words.conll"
    columns.write_text("# id = a\nAnna PER\n\nwent O\n")
    session = session_of(open_file(str(columns)))
    assert [session.title(item) for item in range(2)] == ["a", "item 2"]
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(TEXTS[0])
        (tmp_path / f"{name}.ann").write_text("T1\tPER 0 10\tAnna Smith\n")
    assert open_file(str(tmp_path / "b.ann")).names == ["b"]
    with pytest.raises(ValueError, match="names are those of 1 items, and there are 2"):
        LabellingSession([["a"], ["b"]], None, words=[["a"], ["b"]], names=["one"])


RECORDING = """day,time,x,row,y,kind,state
monday,2024-01-01 10:00:00,1,1,0.5,a,busy
monday,2024-01-01 10:00:02,2,2,,b,
monday,2024-01-01 10:09:00,3,3,0.7,a,?
tuesday,2024-01-02 08:00:00,1,4,1.5,a,?
tuesday,2024-01-02 07:59:00,2,5,2.5,a,?
tuesday,2024-01-02 08:00:01,2,6,3.5,a,?
"""


@pytest.mark.filterwarnings("ignore:left out of the features")
def test_columns_that_are_drawn_and_the_clock_of_a_table(tmp_path):
    table = tmp_path / "rooms.csv"
    table.write_text(RECORDING.replace(",y,", ",z,").replace(",,b", ",0.6,b"))
    session = session_of(
        open_file(str(table), sequence="day", label="state")
    )  # kind is text, and learned from all the same
    state, shown = session.state(), session.show(0)
    assert (state["shape"], state["columns"]) == ("line", ["x", "row", "z"])
    assert state["axis"] == {"name": "time", "clock": True}
    assert shown["columns"] == [[1, 2, 3], [1, 2, 3], [0.5, 0.6, 0.7]]
    assert [own - shown["times"][0] for own in shown["times"]] == [0, 2000, 540_000]
    assert shown["times"][0] == 1_704_103_200_000  # ten o'clock of the first of January 2024
    assert set(session.items.X[0][0]) == {"x", "row", "z", "kind"}
    session.close()
    chosen = open_file(str(table), sequence="day", label="state", lanes=["z", "row"])
    session = session_of(chosen)
    assert session.state()["columns"] == ["z", "row"]
    assert session.show(1)["columns"] == [[1.5, 2.5, 3.5], [4, 5, 6]]
    session.mark(0, 0, 1, 2, "idle")
    session.save()
    assert session.file.lines.drawn_columns == ["z", "row"]
    for name, problem in {
        "kind": "column 'kind' holds 'a', and a time line draws numbers",
        "w": "has no column 'w'",
    }.items():
        with pytest.raises(ValueError, match=problem):
            open_file(str(table), sequence="day", label="state", lanes=[name])
    words = tmp_path / "words.conll"
    words.write_text("Anna PER\n")
    with pytest.raises(ValueError, match=r"--columns names columns of CSV tables, and .* is of format columns"):
        open_file(str(words), lanes=["x"])


@pytest.mark.filterwarnings("ignore:left out of the features")
def test_a_line_has_a_gap_where_a_column_that_is_no_feature_has_no_number(tmp_path):
    table = tmp_path / "rooms.csv"
    table.write_text(RECORDING)
    file = open_file(str(table), sequence="day", label="state", features=["x"], lanes=["y"])
    assert session_of(file).show(0)["columns"] == [[0.5, None, 0.7]]
    assert file.columns == ["x"]


def test_a_column_of_numbers_called_seconds_is_the_axis(tmp_path):
    table = tmp_path / "days.csv"
    table.write_text("day,seconds,x\n1,0.5,4\n1,0.7,5\n")
    session = session_of(open_file(str(table), sequence="day"))
    assert session.state()["axis"] == {"name": "seconds", "clock": False}
    assert session.show(0)["times"] == [0.5, 0.7]
    assert session.show(0)["columns"] == [[4, 5]]
    with pytest.raises(ValueError, match=r"--sequence-column NAME.*days.csv has the columns 'day', 'seconds', 'x'"):
        open_file(str(table))


@pytest.mark.parametrize("kind", ["columns", "doccano", "csv", "elan"])
def test_commands_that_the_page_names_at_the_end_run(tmp_path, kind):
    place, options = tmp_path / "my notes", {}
    if kind == "csv":
        place.with_suffix(".csv").write_text("day,x,state\n1,0.5,busy\n1,0.7,idle\n2,0.1,idle\n")
        options = {"sequence": "day", "label": "state"}
    elif kind == "elan":
        tiers = [Labelling([LabelledSpan("PRON", 0.0, 1.0)], annotator="pos")]
        write_documents(place.with_suffix(".eaf"), [Document(labellings=tiers, duration=(0.0, 4.0), id="a")], kind)
    else:
        ending = {"columns": ".conll", "doccano": ".jsonl"}[kind]
        write_documents(place.with_suffix(ending), documents(kind), kind)
    (file,) = tmp_path.iterdir()
    state = session_of(open_file(str(file), **options)).state()
    for what, command in sorted(state["next"].items()):  # export comes first
        name, *arguments = shlex.split(command)
        assert name == "kernelfields"
        if what == "train a model":
            arguments += ["--max-iter", "2"]
        told = subprocess.run([sys.executable, "-m", "kernelfields.cli", *arguments], capture_output=True, text=True)
        assert told.returncode in (0, 1), told.stderr  # 1 where the fit was ended
    exported = {"columns": ".jsonl", "doccano": ".conll", "csv": ".crfsuite", "elan": ".TextGrid"}[kind]
    assert file.with_suffix(exported).exists()
    assert file.with_suffix(".safetensors").exists() == (kind != "elan")


def test_guidelines_are_a_text(tmp_path):
    path = tmp_path / "rules.md"
    path.write_bytes("# Régles\r\nMark names.\n".encode())
    assert read_guidelines(str(path)) == "# Régles\nMark names."
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="expected UTF-8"):
        read_guidelines(str(path))
    path.write_text("long " * 110_000)
    with pytest.raises(ValueError, match=r"rules.md has more than 500000 characters"):
        read_guidelines(str(path))
    with pytest.raises(FileNotFoundError):
        read_guidelines(str(tmp_path / "none.md"))


def test_items_are_shown_as_their_text(tmp_path):
    (tmp_path / "notes.txt").write_text("Call  your mother.\nMail bob@x.org, if possible\n")
    session = session_of(open_file(str(tmp_path / "notes.txt")), classes=["X"])
    shown = session.show(0)
    assert shown["words"] == ["Call", "your", "mother", "."]
    assert shown["gaps"] == ["", "  ", " ", "", ""]
    assert [own["text"] for own in session.queue()] == ["Call your mother.", "Mail bob@x.org, if possible"]
    assert [own["item"] for own in session.queue(text="bob@x")] == [1]
    session.mark(1, 0, 1, 6, "X")
    session.save()
    session.close()
    again = session_of(open_file(str(tmp_path / "notes.conll")))
    assert again.show(0)["gaps"] == shown["gaps"]
    assert again._join_words(1, 1, 6) == "bob@x.org"


def test_sentences_of_conllu_are_shown_as_their_text(tmp_path):
    rows = [
        "1\tDon\tdo\tAUX\t_\t_\t0\troot\t_\tSpaceAfter=No",
        "2\tPanic\tpanic\tVERB\t_\t_\t1\tx\t_\tSpaceAfter=No",
        "3\t!\t!\t_\t_\t_\t1\tx\t_\t_",
    ]
    path = tmp_path / "a.conllu"
    path.write_text("\n".join(rows) + "\n\n")
    shown = session_of(open_file(str(path))).show(0)
    assert (shown["words"], shown["gaps"]) == (["Don", "Panic", "!"], ["", "", "", ""])


def test_sentences_beside_an_item_are_those_of_its_document(tmp_path):
    (tmp_path / "notes.txt").write_text("One is here.\nTwo\tis  here too, I think.\nThree.\n")
    session = session_of(open_file(str(tmp_path / "notes.txt")), classes=["X"])
    beside = [(shown.get("before"), shown.get("after")) for shown in map(session.show, range(3))]
    middle = "Two is here too, I think."
    assert beside == [(None, middle), ("One is here.", "Three."), (middle, None)]
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\na O\n\nb O\n\n-DOCSTART- O\n\nc O\n\n# newdoc id = 3\nd O\n\n")
    session = session_of(open_file(str(path)))
    beside = [(shown.get("before"), shown.get("after")) for shown in map(session.show, range(4))]
    assert beside == [(None, "b"), ("a", None), (None, None), (None, None)]
    write_documents(tmp_path / "a.jsonl", documents("doccano"))
    assert "before" not in session_of(open_file(str(tmp_path / "a.jsonl"))).show(1)
