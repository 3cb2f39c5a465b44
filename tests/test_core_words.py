"""The core names little of what a plain fit does not use: how often, word by word, which may only become less."""

from pathlib import Path

from benchmarks.house import PLUG_INS, core_files, plug_in_words, sources

PACKAGE = Path(__file__).parents[1] / "src" / "kernelfields"
#: How often names in the core's files have each word of a plug-in, at most; a word that is not here, never.
AT_MOST = {
    "structures": {"segment": 1, "graph": 3, "ngram": 1},
    "weights": {"support": 3, "l1": 11, "tie": 24, "orthant": 2, "fused": 8, "threshold": 4},
    "labels": {"target": 5, "expectation": 6, "allowed": 17, "listed": 6},
    "tuning": {"auto": 13, "evidence": 2},
    "places": {"device": 8, "dask": 1, "budget": 8},
    "answers": {"laplace": 4, "stream": 2},
    "fits": {"continuation": 2, "warm": 2, "growing": 2, "callback": 6},
    "columns": {"category": 5, "window": 8, "scale": 28},
}


def test_the_core_names_no_more_of_plug_ins_than_it_did():
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sources(PACKAGE)}
    found = plug_in_words(texts)
    at_most = {word: count for words in AT_MOST.values() for word, count in words.items()}
    assert {word: count for word, count in found.items() if count > at_most.get(word, 0)} == {}, (
        "the core asks for a plug-in: let the plug-in come to the core"
    )


def test_words_are_those_of_names_in_the_core():
    place = core_files(["solvers/loop.py", "solvers/orthant.py"])
    assert place == ["solvers/loop.py"]
    found = plug_in_words(
        {"solvers/loop.py": "def ask(rings):\n    # segments\n    return rings.l1_ratio + Rings(on='graph')"}
    )
    assert {word: count for word, count in found.items() if count} == {"ring": 3, "l1": 1}
    assert all(set(words) <= set(PLUG_INS[part]) for part, words in AT_MOST.items())
