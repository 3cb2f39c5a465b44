"""Spans that begin and end inside of words: cut, undone, saved, resumed, and read again in every format of texts."""

import json

import pytest

from kernelfields.formats import read_documents, write_documents
from kernelfields.page import LabellingSession
from kernelfields.page.files import align_words, open_file
from kernelfields.page.journal import Journal, Split

# A text, and the part of a word in it that is marked.
PARTS = [
    ("Ann Smith-Jones took 5mg daily.", "Jones"),
    ("Ann Smith-Jones took 5mg daily.", "mg"),
    ("a😀😀 mail👩‍👩‍👧x@y.org, now", "👧x"),
    ("Cafe\u0301bar in Zu\u0308rich is open.", "bar"),
    ("ذهبتمحمد إلى المدرسة اليوم.", "محمد"),
    ("שלום לירושלים בבוקר טוב", "ירושלים"),
    ("東京都庁へ 𠮷野家に行く", "野"),
]
ENDINGS = {"text": "a.txt", "doccano": "a.jsonl", "labelstudio": "a.json", "brat": "a.ann", "spacy": "a.spacy"}


def opened(path, journal=None, **settings):
    file = open_file(str(path))
    known = {"words": file.words, "file": file, "scheme": file.scheme, "classes": ["X"]}
    return LabellingSession(file.X, file.y, **{**known, **settings}, journal=journal)


def write(tmp_path, kind, text):
    path = tmp_path / ENDINGS[kind]
    if kind == "text":
        path.write_text(text + "\n", encoding="utf-8")
    else:
        raw = tmp_path / "raw.txt"
        raw.write_text(text + "\n", encoding="utf-8")
        write_documents(path, read_documents(raw, "text"), kind)
    return path


def marked(path):
    """Return the offsets of all spans of a file, and what they cover."""
    return [
        [(span.begin, span.end, own.text[span.begin : span.end]) for span in of.spans or list_of(own, of)]
        for own in read_documents(path)
        for of in own.labellings
    ]


def list_of(document, labelling):
    from kernelfields.formats import list_spans

    return list_spans(document, labelling, strict=False)


def mark(session, begin, end, kind="X"):
    """Mark characters of the first item."""
    shown = session.split(0, session.versions[0], [begin, end])
    at = [k for k, place in enumerate(shown["begins"]) if begin <= place < end]
    session.mark(0, shown["version"], at[0], at[-1] + 1, kind)


@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize(("text", "part"), PARTS)
def test_offsets_of_parts_of_words_are_equal_in_all_formats(tmp_path, kind, text, part):
    if kind == "spacy":
        pytest.importorskip("spacy")
    path = write(tmp_path, kind, text)
    begin = text.index(part)
    session = opened(path)
    mark(session, begin, begin + len(part))
    shown = session.show(0)
    assert "".join(gap + word for gap, word in zip(shown["gaps"], [*shown["words"], ""], strict=True)) == text
    session.save()
    expected = [[(begin, begin + len(part), part)]]
    saved = tmp_path / "a.conll" if kind == "text" else path
    assert marked(saved) == expected
    session.done(0, session.versions[0])
    session.save()
    session.close()
    assert marked(saved) == expected
    again = opened(saved)
    assert again.show(0)["words"] == session.show(0)["words"]
    assert again.labels() == session.labels()
    again.close()
    for other in ("doccano", "labelstudio", "brat"):  # and on to the others
        place = tmp_path / f"other{ENDINGS[other][1:]}"
        write_documents(place, read_documents(saved), other, lossy=True)
        assert marked(place) == expected
        assert read_documents(place)[0].text == text


def test_a_cut_is_undone_redone_saved_and_resumed(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Take 5mg of Smith-Jones daily.\nNothing else now\n")
    journal = tmp_path / "journal"
    session = opened(path, journal)
    whole = session.show(0)["words"]
    session.mark(0, 0, 3, 4, "X")
    shown = session.split(0, 1, [6, 12, 17, 18])  # two of them are no edges of words yet
    assert shown["words"] == ["Take", "5", "mg", "of", "Smith", "-", "Jones", "daily", "."]
    assert session.labels()[0] == [None, None, None, None, "B-X", "I-X", "I-X", None, None]
    session.mark(0, shown["version"], 2, 3, "X")
    cut = session.labels()
    session.close()
    session = opened(path, journal)  # killed, and begun again
    assert session.labels() == cut
    assert session.undo()["words"] == shown["words"]
    assert session.undo()["words"] == whole
    assert session.labels()[0] == [None, None, None, "B-X", None, None]
    assert session.redo()["words"] == shown["words"]
    session.save()
    session.close()
    session = opened(path, journal)  # what was saved can be undone
    assert session.labels()[0] == [None, None, None, None, "B-X", "I-X", "I-X", None, None]
    session.redo()
    assert session.labels() == cut
    session.undo()
    session.undo()
    assert session.show(0)["words"] == whole
    session.save()
    session.close()
    assert opened(path).show(0)["words"] == whole


def test_cuts_with_a_model_are_predicted_again(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [{"text": f"take {n}mg now", "label": [[5, 6, "X"]]} for n in range(1, 9)] + [{"text": "take 9mg now"}]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    session = opened(path)
    assert session.show(0)["words"] == ["take", "1", "mg", "now"]  # spans that are there cut words as well
    session.refit(wait=True)
    assert session.show(8)["words"] == ["take", "9mg", "now"]
    shown = session.split(8, 0, [6])
    assert [own["from"] for own in shown["positions"]] == ["predicted"] * 4
    assert len(session.best(8)[0]["labels"]) == 4
    session.refit(wait=True)


def test_a_column_file_without_texts_gets_one_for_its_parts(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("# id = 7\nTake\tO\n5mg\tO\n\nBen\tB-X\n\n")
    session = opened(path)
    session.split(0, 0, [6])
    session.mark(0, 1, 2, 3, "X")
    session.save()
    assert "# text = Take 5mg\n# id = 7\nTake\tO\n5\tO\nmg\tB-X\n" in path.read_text()
    assert marked(path) == [[(6, 8, "mg")], [(0, 3, "Ben")]]


@pytest.mark.parametrize("places", [[99], [-1], [True], ["2"], 3, None, [2**70]])
def test_places_outside_of_the_text_are_refused(tmp_path, places):
    (tmp_path / "a.txt").write_text("Take 5mg\n")
    session = opened(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="has 8 characters, and no place"):
        session.split(0, 0, places)
    assert session.versions == [0]


def test_words_that_cannot_be_cut_say_why(tmp_path):
    (tmp_path / "a.conll").write_text("Take\tVB\tO\n5mg\tNN\tO\n\n")
    with pytest.raises(ValueError, match=r"a\.conll stay as they are: it has columns beside words and labels"):
        opened(tmp_path / "a.conll").split(0, 0, [6])
    with pytest.raises(ValueError, match="item 1 was not read from a text"):
        LabellingSession([["a", "b"]], None, classes=["X"]).split(0, 0, [1])


def test_damaged_cuts_of_a_journal_are_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("Take 5mg\n")
    journal = Journal(tmp_path / "journal", b"")
    journal.append(Split(0, 0, 1, 1, None, (None, None)))
    journal.append(Split(0, 1, 5, 1, None, (None, None)))
    journal.close()
    with pytest.warns(UserWarning, match="there are 3 words, and no word 5"):
        session = opened(tmp_path / "a.txt", tmp_path / "journal")
    assert session.show(0)["words"] == ["Take", "5", "mg"]


def test_annotators_do_not_see_where_others_cut_words(tmp_path):
    labelled = '{"text": "Ben-Carl likes Oslo.", "label": [[0, 3, "PER"]]}\n{"text": "Oslo", "label": []}\n'
    (tmp_path / "notes.jsonl").write_text(labelled)
    own = tmp_path / "notes.anna.jsonl"
    opened = open_file(str(tmp_path / "notes.jsonl"), output=str(own), blind=True)
    assert opened.words == [["Ben-Carl", "likes", "Oslo", "."], ["Oslo"]]
    opened.save(opened.with_labels([["O", "O", "B-LOC", "O"], [None]]))
    assert "PER" not in own.read_text()
    documents = [json.loads(line) for line in own.read_text().splitlines()]
    assert [document.get("label", []) for document in documents] == [[[15, 19, "LOC"]], []]


def test_files_of_annotators_who_cut_words_differently_share_their_parts(tmp_path):
    text = "Ben-Carl likes New York."
    spans = {"anna": [[0, 3, "PER"], [15, 23, "LOC"]], "ben": [[0, 8, "PER"], [19, 23, "LOC"]], "carl": [[4, 8, "PER"]]}
    for name, own in spans.items():
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": text, "label": own}) + "\n")
    opened = [open_file(str(tmp_path / f"{name}.jsonl")) for name in spans]
    anna, ben, carl = align_words(opened)
    assert anna.words == ben.words == carl.words == [["Ben", "-", "Carl", "likes", "New", "York", "."]]
    assert anna.y == [["B-PER", "O", "O", "O", "B-LOC", "I-LOC", "O"]]
    assert ben.y == [["B-PER", "I-PER", "I-PER", "O", "O", "B-LOC", "O"]]
    assert carl.y == [["O", "O", "B-PER", "O", "O", "O", "O"]]
    for name, own in zip(spans, (anna, ben, carl), strict=True):
        (document,) = [json.loads(line) for line in own.with_labels(own.y).decode().splitlines()]
        assert document["label"] == spans[name]


def test_column_files_share_parts_of_words_and_other_texts_stay(tmp_path):
    paths = {name: tmp_path / f"{name}.conll" for name in ("anna", "ben", "other")}
    paths["anna"].write_text("# text = Ben-Carl ran\nBen\tB-PER\n-Carl\tO\nran\tO\n")
    paths["ben"].write_text("# text = Ben-Carl ran\nBen-Carl\tB-PER\nran\t?\n")
    paths["other"].write_text("Ben-Anna\tB-PER\nran\tO\n")
    anna, ben = align_words([open_file(str(paths[name])) for name in ("anna", "ben")])
    assert anna.words == ben.words == [["Ben", "-Carl", "ran"]]
    assert ben.y == [["B-PER", "I-PER", None]]
    assert [own.words for own in align_words([open_file(str(paths[name])) for name in ("anna", "other")])] == [
        [["Ben", "-Carl", "ran"]],
        [["Ben-Anna", "ran"]],
    ]
