"""Single formats of annotated texts: what is read, what is kept, what is refused, and files that are broken."""

import gzip
import json
import re
import zlib

import pytest

from benchmarks.shared_data import DataMissing, data_file
from kernelfields.data import text_files
from kernelfields.formats import (
    Document,
    LabelledSpan,
    Labelling,
    find_losses,
    list_labels,
    read_documents,
    tokenize,
    write_documents,
)

UD = """# newdoc id = a
# sent_id = a-1
# text = Im Zug.
1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_
1\tIn\tin\tADP\tAPPR\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\tART\tCase=Dat\t3\tdet\t_\t_
3\tZug\tZug\tNOUN\tNN\t_\t0\troot\t_\tSpaceAfter=No|Gloss=train
4\t.\t.\tPUNCT\t$.\t_\t3\tpunct\t_\t_

"""


GRID = """File type = "ooTextFile"
Object class = "TextGrid"
xmin = 0
xmax = {}
tiers? <exists>
size = {}
class = "IntervalTier"
name = "w"
xmin = 0
xmax = 2
intervals: size = {}
xmin = 0 xmax = 2 text = "a"
"""
REGION = '{{"type": "labels", "value": {{"start": 0, "end": {}, "labels": ["a"]}}}}'


def own(text):
    """CoNLL-U with a comment of ours."""
    return UD.replace("# sent_id", f"# kernelfields = {text}\n# sent_id").replace("# newdoc id = a\n", "")


def _slots(value):
    slots = f'<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="{value}"/></TIME_ORDER>'
    return f"<ANNOTATION_DOCUMENT>{slots}</ANNOTATION_DOCUMENT>"


def shared(name, file):
    try:
        return data_file(name, file)
    except DataMissing as error:
        pytest.skip(str(error))


def through(folder, documents, name, ending, **options):
    write_documents(folder / f"x{ending}", documents, name, **options)
    return read_documents(folder / f"x{ending}", name)


def entities(*spans, text="New York University opens", **settings):
    return Document(text, labellings=[Labelling([LabelledSpan(*span) for span in spans], **settings)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Anna's well-known 3.14, 1,000 (a).", ["Anna's", "well-known", "3.14", ",", "1,000", "(", "a", ")", "."]),
        ("東京に नमस्ते x_y", ["東", "京", "に", "नमस्ते", "x_y"]),
        ("  ", []),
    ],
)
def test_the_default_tokenizer(text, words):
    assert [text[begin:end] for begin, end in tokenize(text)] == words


def test_tokenizers_of_ones_own():
    assert list(tokenize("a-b c", r"\S+")) == [(0, 3), (4, 5)]
    assert list(tokenize("a a b", str.split)) == [(0, 1), (2, 3), (4, 5)]
    assert list(tokenize("ab", lambda text: [(0, 1), (1, 2)])) == [(0, 1), (1, 2)]
    with pytest.raises(ValueError, match=r"has found 'z', which is not in the text from 1 on"):
        list(tokenize("ab", lambda text: ["a", "z"]))


def test_conllu_keeps_every_column_and_line(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(UD, encoding="utf-8")
    (document,) = read_documents(path)
    assert (document.text, document.id) == ("Im Zug.", "a-1")
    assert document.tokens == [(0, 2), (0, 2), (3, 6), (6, 7)]  # the words of a multiword token share its offsets
    assert list_labels(document) == ["ADP", "DET", "NOUN", "PUNCT"]
    assert [loss.kind for loss in find_losses([document], "doccano")] == ["scheme"]  # two labels at one place
    write_documents(tmp_path / "c.conllu", [document])
    assert (tmp_path / "c.conllu").read_text(encoding="utf-8") == UD


def test_labels_in_misc(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(UD.replace("Gloss=train", "Gloss=train|NER=B-X"), encoding="utf-8")
    (document,) = read_documents(path, label="misc:NER")
    assert list_labels(document) == [None, None, "B-X", None]
    document.labellings[0].labels[3] = "O"
    write_documents(path, [document])
    assert "Gloss=train|NER=B-X\n" in path.read_text(encoding="utf-8")
    assert read_documents(path, label="misc:NER") == [document]


@pytest.mark.parametrize(("kind", "ending"), [("brat", ""), ("textgrid", ""), ("elan", "")])
def test_folders_keep_the_order_of_documents(tmp_path, kind, ending):
    def named(name):
        return Document("hello", id=name) if kind == "brat" else Document("", id=name, duration=(0.0, 1.0))

    documents = [named(name) for name in ("b", "a-1", "a", "c")]
    assert [document.id for document in through(tmp_path, documents, kind, ending)] == ["b", "a-1", "a", "c"]
    # Written again in another order, and sorted: the folder has it, and nothing of the last one.
    again = sorted(documents, key=lambda document: document.id)
    assert [document.id for document in through(tmp_path, again, kind, ending)] == ["a", "a-1", "b", "c"]


def test_more_files_than_a_process_may_open(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_MOST_LOCKED", 3)
    text_files.write_whole({str(tmp_path / f"{number}.txt"): b"x" for number in range(8)})
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{number}.txt" for number in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"), [("conll2000", "test.tsv.gz"), ("ud-english-ewt", "dev.tsv.gz")], ids=["chunks", "tags"]
)
@pytest.mark.parametrize(
    ("kind", "ending", "count"),
    [
        ("doccano", ".jsonl", None),
        ("labelstudio", ".json", None),
        ("conllu", ".conllu", None),
        ("brat", "", 300),  # two files for each sentence
        ("spacy", ".spacy", None),
    ],
)
def test_real_column_files_come_back_to_the_byte(tmp_path, name, file, kind, ending, count):
    if kind == "spacy":
        pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'kernelfields[spacy]'")
    path = shared(name, file)
    content = gzip.decompress(path.read_bytes()).decode("utf-8")
    start = "\n\n".join(content.rstrip("\n").split("\n\n")[:count]) + "\n\n"
    (tmp_path / "start.tsv").write_text(start, encoding="utf-8")
    documents = read_documents(tmp_path / "start.tsv")
    assert find_losses(documents, kind) == []
    again = through(tmp_path, documents, kind, ending)
    assert again == documents
    write_documents(tmp_path / "again.tsv", again)
    assert (tmp_path / "again.tsv").read_text(encoding="utf-8") == start


def test_spans_that_nest_touch_and_cut_words(tmp_path):
    nested = entities(("ORG", 0, 19), ("LOC", 0, 8))
    assert [loss.kind for loss in find_losses([nested], "columns")] == ["overlap"]
    with pytest.raises(ValueError, match=r"would lose spans that nest or overlap.*'LOC' \[0, 8\] and 'ORG' \[0, 19\]"):
        write_documents(tmp_path / "x.conll", [nested])
    assert not (tmp_path / "x.conll").exists()
    (kept,) = through(tmp_path, [nested], "columns", ".conll", lossy=True)
    assert kept.labellings[0].spans == [LabelledSpan("ORG", 0, 19)]
    touching = entities(("LOC", 0, 3), ("LOC", 4, 8))
    assert list_labels(touching) == ["B-LOC", "B-LOC", "O", "O"]
    cut = entities(("LOC", 0, 6))
    with pytest.raises(ValueError, match=r"document 1 \(d\): the span 'LOC' \[0, 6\] cuts the word 'York' \[4, 8\]"):
        list_labels(cut, name="document 1 (d)")
    for kind, ending in (("columns", ".conll"), ("conllu", ".conllu")):  # rows are parts of words
        (kept,) = through(tmp_path, [cut], kind, ending)
        assert (kept.text, kept.words) == (cut.text, ["New", "Yo", "rk", "University", "opens"])
        assert kept.labellings == cut.labellings
    beside = entities(("LOC", 3, 8))
    with pytest.raises(ValueError, match=r"'LOC' \[3, 8\] begins or ends outside of words"):
        write_documents(tmp_path / "x.conll", [beside])
    with pytest.raises(ValueError, match=r"document 1: the span 'LOC' \[0, 99\] is not within 0 .. 25 characters"):
        write_documents(tmp_path / "x.jsonl", [entities(("LOC", 0, 99))])


def test_units_do_not_mix(tmp_path):
    with pytest.raises(ValueError, match="document 1: its offsets count characters, those of the format seconds"):
        write_documents(tmp_path / "x.eaf", [Document("a")], lossy=True)


def test_label_studio_offsets_scores_and_what_it_holds_besides(tmp_path):
    region = {"id": "r1", "from_name": "ner", "to_name": "doc", "type": "labels", "origin": "manual", "meta": {"a": 1}}
    task = {
        "id": 7,
        "data": {"text": "😀 Anna", "source": "s"},
        "annotations": [
            {
                "id": 3,
                "completed_by": {"id": 2, "email": "a@b.c"},
                "lead_time": 1.5,
                "result": [
                    {**region, "value": {"start": 3, "end": 7, "text": "Anna", "labels": ["PER", "NAME"]}},
                    {"type": "choices", "value": {"choices": ["good"]}, "from_name": "c", "to_name": "doc"},
                ],
            }
        ],
        "predictions": [
            {
                "model_version": "m",
                "result": [{**region, "score": 0.5, "value": {"start": 2, "end": 6, "labels": ["PER"]}}],
            }
        ],
        "project": 4,
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps([task]), encoding="utf-8")
    (document,) = read_documents(path)
    given, predicted = document.labellings
    assert given.spans == [LabelledSpan("NAME", 2, 6, id="r1"), LabelledSpan("PER", 2, 6, id="r1")]  # UTF-16 offsets
    assert (given.annotator, predicted.annotator, predicted.spans[0].probability) == ("a@b.c", "m", 0.5)
    write_documents(path, [document])
    (written,) = json.loads(path.read_text(encoding="utf-8"))
    assert written["annotations"][0]["result"][1] == task["annotations"][0]["result"][1]
    assert written["annotations"][0]["completed_by"] == {"id": 2, "email": "a@b.c"}
    assert written["annotations"][0]["result"][0]["meta"] == {"a": 1}
    assert (written["project"], written["data"], written["id"]) == (4, task["data"], 7)
    assert read_documents(path) == [document]


def test_brat_keeps_relations_and_writes_parts_of_lines(tmp_path):
    text = "Anna Maria\nSmith of Oslo"
    lines = ["T1\tPER 0 10;11 16\tAnna Maria Smith", "T2\tLOC 0 4;20 24\tAnna Oslo", "R1\tin Arg1:T1 Arg2:T2", ""]
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "a.ann").write_text("\n".join(lines), encoding="utf-8")
    (document,) = read_documents(tmp_path / "a.ann")
    first, gap = document.labellings[0].spans
    assert (first.begin, first.end, first.fragments, gap.fragments) == (0, 16, (), ((0, 4), (20, 24)))
    write_documents(tmp_path / "out", [document], "brat")
    assert (tmp_path / "out" / "a.ann").read_text(encoding="utf-8") == "\n".join(lines)
    assert [loss.kind for loss in find_losses([document], "doccano")] == ["fragments"]


def test_elan_keeps_what_it_held(tmp_path):
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><ANNOTATION_DOCUMENT><HEADER MEDIA_FILE="a.wav"/><TIME_ORDER>'
        '<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="t2"/>'
        '<TIME_SLOT TIME_SLOT_ID="t3" TIME_VALUE="1000"/></TIME_ORDER><TIER TIER_ID="words" LINGUISTIC_TYPE_REF="w">'
        '<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="t1" TIME_SLOT_REF2="t2">'
        "<ANNOTATION_VALUE>one</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>"
        '<TIER TIER_ID="tags" PARENT_REF="words" LINGUISTIC_TYPE_REF="w"><ANNOTATION>'
        '<REF_ANNOTATION ANNOTATION_ID="a2" ANNOTATION_REF="a1"><ANNOTATION_VALUE>NUM</ANNOTATION_VALUE>'
        "</REF_ANNOTATION></ANNOTATION></TIER><CONTROLLED_VOCABULARY/></ANNOTATION_DOCUMENT>"
    )
    (tmp_path / "a.eaf").write_text(text, encoding="utf-8")
    (document,) = read_documents(tmp_path / "a.eaf")
    assert [(tier.annotator, tier.spans) for tier in document.labellings] == [
        ("words", [LabelledSpan("one", 0.0, 0.5, id="a1")]),
        ("tags", [LabelledSpan("NUM", 0.0, 0.5, id="a2")]),
    ]
    document.labellings[0].spans.append(LabelledSpan("two", 0.5, 1.0, id="a3"))
    write_documents(tmp_path / "a.eaf", [document])
    written = (tmp_path / "a.eaf").read_text(encoding="utf-8")
    assert all(part in written for part in ('MEDIA_FILE="a.wav"', "<CONTROLLED_VOCABULARY />", "REF_ANNOTATION", "two"))


def test_textgrids_in_the_short_form_and_utf16(tmp_path):
    short = '"ooTextFile"\n"TextGrid"\n0\n2\n<exists>\n1\n"IntervalTier"\n"w"\n0\n2\n2\n0\n1\n"a ""b"""\n1\n2\n""\n'
    text = "File type = " + short.replace('"TextGrid"', 'Object class = "TextGrid"')
    (tmp_path / "a.TextGrid").write_bytes(text.encode("utf-16"))
    (document,) = read_documents(tmp_path / "a.TextGrid")
    assert document.labellings == [Labelling([LabelledSpan('a "b"', 0.0, 1.0)], annotator="w")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": \n', "a.jsonl, line 2, character 10: broken JSON"),
        ("a.jsonl", '{"text": 3}', "a.jsonl, line 1: 'text' must be of type str, got 3"),
        ("a.jsonl", '{"text": "ab", "label": ["x"]}', "line 1: a label must be [begin, end, \"label\"], got 'x'"),
        ("a.jsonl", '{"text": "ab", "label": [[0, 9, "x"]]}', "document 1: the span 'x' [0, 9] is not within 0 .. 2"),
        ("a.json", "[" * 100000, "a.json: broken JSON: nested too deeply"),
        ("a.json", '[{"data": {"text": "a"}, "annotations": [{}]}]', "task 1: 'result' must be of type list"),
        ("a.eaf", '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "it declares a document type, which is refused"),
        ("a.eaf", "<a>", "a.eaf: broken XML"),
        (
            "a.eaf",
            '<?xml version="1.0" encoding="x-9"?><a/>',
            "a.eaf, line 1: unknown encoding: x-9. Write the file as",
        ),
        ("a.eaf", _slots("9" * 400), "a.eaf: the TIME_VALUE '9999"),
        ("a.eaf", _slots("²"), "a.eaf: the TIME_VALUE '²' is not a whole number"),
        ("a.TextGrid", "hello", "a.TextGrid, line 1: expected a text of a TextGrid"),
        ("a.TextGrid", GRID.format(2, "1e400", 1), "a.TextGrid, line 6: expected a count of a TextGrid, got inf"),
        ("a.TextGrid", GRID.format(2, "-1", 1), "a.TextGrid, line 6: expected a count of a TextGrid, got -1.0"),
        ("a.TextGrid", GRID.format(2, "0.5", 1), "a.TextGrid, line 6: expected a count of a TextGrid, got 0.5"),
        ("a.TextGrid", GRID.format(2, 1, "1e400"), "a.TextGrid, line 11: expected a count of a TextGrid, got inf"),
        ("a.TextGrid", GRID.format("-1e400", 1, 1), "a.TextGrid, line 4: expected a number of a TextGrid, got -inf"),
        ("a.conll", "a\tB-X\nb\n", "a.conll, line 2"),
        *(
            (
                "a.conllu",
                UD.replace("1-2", given),
                f"a.conllu, line 4: the range {given} is not one of words that follow",
            )
            for given in ("2-1", "1-9", "9-1", "1-0", f"{'9' * 400}-1")
        ),
        (
            "a.conllu",
            UD.strip() + UD.splitlines()[3].join("\n\n"),
            "a.conllu, line 9: the range 1-2 is not one of words",
        ),
        ("a.conllu", own("{"), "a.conllu, before line 5: under 'kernelfields', line 1, character 2: broken JSON"),
        ("a.conllu", own("3"), "a.conllu, before line 5: under 'kernelfields' stands 3, expected a JSON object"),
        ("a.conllu", own('{"place": null}'), "under 'kernelfields', 'place' is not what was written there, got None"),
        ("a.conllu", own('{"tokens": [[0]]}'), "'tokens' is not what was written there, got [[0]]. Remove what stands"),
        ("a.conllu", own('{"tokens": [[0, 1e999]]}'), "'tokens' is not what was written there, got [[0, inf]]"),
        ("a.conllu", own('{"tokens": [[0, 2]], "spans": true}'), "document 1 (a-1): 4 labels for 1 tokens"),
        ("a.conllu", own('{"labelling": {"name": "x"}}'), "'labelling' is not what was written there"),
        ("a.conllu", own('{"kept": {"brat": 1}}'), "'kept' is not what was written there"),
        ("a.conllu", own('{"scheme": "x"}'), "'scheme' is not what was written there"),
        ("a.jsonl", '{"text": "\\ud800"}', "a.jsonl, line 1: broken JSON: half of a character (a surrogate)"),
        ("a.jsonl", '{"text": "a", "kernelfields": []}', "a.jsonl, line 1: under 'kernelfields' stands []"),
        *(
            (
                "a.json",
                '[{"data": {}, "annotations": [{"result": [' + REGION.format(end) + "]}]}]",
                "expected finite seconds",
            )
            for end in ("1e999", "9" * 400)
        ),
        ("a.xyz", "", "format must be one of 'doccano'"),
    ],
)
def test_broken_files_are_one_line_with_the_place(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        read_documents(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_elan_slots_without_a_time_and_annotations_far_from_one(tmp_path):
    values = ["", 'TIME_VALUE="200"', "", "", "", 'TIME_VALUE="600"', ""]
    slots = "".join(f'<TIME_SLOT TIME_SLOT_ID="t{n}" {value}/>' for n, value in enumerate(values))
    text = "<ANNOTATION_VALUE>x</ANNOTATION_VALUE>"
    spans = "".join(
        f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="s{n}" TIME_SLOT_REF1="t{n}" TIME_SLOT_REF2="t{n + 1}">'
        f"{text}</ALIGNABLE_ANNOTATION></ANNOTATION>"
        for n in range(5)
    )
    chain = "".join(
        f'<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="r{n}" ANNOTATION_REF="{f"r{n - 1}" if n else "s1"}">{text}'
        "</REF_ANNOTATION></ANNOTATION>"
        for n in range(2000)
    )
    whole = f'<TIER TIER_ID="a">{spans}</TIER><TIER TIER_ID="b">{chain}</TIER>'
    (tmp_path / "a.eaf").write_text(
        f"<ANNOTATION_DOCUMENT><TIME_ORDER>{slots}</TIME_ORDER>{whole}</ANNOTATION_DOCUMENT>", encoding="utf-8"
    )
    (document,) = read_documents(tmp_path / "a.eaf")
    begins = [span.begin for span in document.labellings[0].spans]
    assert begins == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert {(span.begin, span.end) for span in document.labellings[1].spans} == {(begins[1], begins[2])}
    circle = text.join(
        ('<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="r" ANNOTATION_REF="r">', "</REF_ANNOTATION></ANNOTATION>")
    )
    (tmp_path / "a.eaf").write_text(f"<ANNOTATION_DOCUMENT><TIER>{circle}</TIER></ANNOTATION_DOCUMENT>")
    with pytest.raises(ValueError, match="refer to each other in a circle"):
        read_documents(tmp_path / "a.eaf")


@pytest.mark.parametrize("member", ["tokens", "other"])
def test_a_docbin_that_unpacks_to_far_more_than_it_is(tmp_path, member):
    pytest.importorskip("spacy", reason="the extra spacy is not installed")
    srsly = pytest.importorskip("srsly")
    path = tmp_path / "a.spacy"
    write_documents(path, [entities(("ORG", 0, 19))])
    whole = path.read_bytes()
    values = srsly.msgpack_loads(zlib.decompress(whole))
    values[member] = bytes(2**26 + 1)
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(values)))
    with pytest.raises(ValueError, match="would unpack to more than 64 MiB and 200 times its size"):
        read_documents(path)
    path.write_bytes(whole)
    assert read_documents(path)[0].labellings[0].spans == [LabelledSpan("ORG", 0, 19)]


def test_a_doc_whose_own_parts_are_damaged(tmp_path):
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    doc = spacy.tokens.Doc(spacy.vocab.Vocab(), words=["a"])
    doc.user_data["kernelfields"] = '{"tokens": 3}'
    (tmp_path / "a.spacy").write_bytes(spacy.tokens.DocBin(docs=[doc], store_user_data=True).to_bytes())
    with pytest.raises(
        ValueError, match=r"a.spacy, document 1: under 'kernelfields', 'tokens' is not what was written"
    ):
        read_documents(tmp_path / "a.spacy")
