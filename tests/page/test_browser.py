"""The page in a real browser: from nothing to a model by keyboard, corrections, two tabs, time lines, kills."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from sentences import city_model, sentences, written

from kernelfields import GraphCRF, KernelClassifier
from kernelfields.evaluation.entities import entity_spans
from kernelfields.page import LabellingSession
from kernelfields.page.files import open_file

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("uvicorn", reason="the extra page is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as tools:
        running = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def served():
    from kernelfields.page.server import Server

    servers = []

    def start(labelling):
        servers.append(Server(labelling).start())
        return servers[-1].address

    yield start
    for server in servers:
        server.stop()


def opened(browser, address):
    page = browser.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(address)
    ready(page)
    return page


def ready(page):
    page.wait_for_selector("body[data-busy='false']", timeout=30_000)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    ready(page)


def spans(page):
    """Return the types and words of the spans on the page."""
    return page.evaluate(
        "[...document.querySelectorAll('.span')].map((own) => [own.dataset.kind, "
        "[...own.querySelectorAll('.word')].map((word) => word.textContent).join(' ')])"
    )


def places(page):
    """Return the types of the spans on the page, their first positions and those after their last."""
    found = page.evaluate(
        "[...document.querySelectorAll('.span')].map((own) => [own.dataset.kind, "
        "...[...own.querySelectorAll('.token')].map((token) => Number(token.dataset.t))])"
    )
    return {(kind, positions[0], positions[-1] + 1) for kind, *positions in found}


def tags(page):
    return page.evaluate("[...document.querySelectorAll('.token .label')].map((own) => own.textContent.trim())")


def drag(page, begin, end):
    """Drag over words, the last one included."""
    boxes = [page.locator(".token").nth(place).bounding_box() for place in (begin, end)]
    page.mouse.move(boxes[0]["x"] + 2, boxes[0]["y"] + boxes[0]["height"] / 2)
    page.mouse.down()
    page.mouse.move(boxes[1]["x"] + boxes[1]["width"] - 2, boxes[1]["y"] + boxes[1]["height"] / 2, steps=3)
    page.mouse.up()
    ready(page)


def test_a_sentence_with_one_name_takes_two_actions(browser, served):
    words = ["Yesterday", "Anna", "Smith", "went", "home", "."]
    session = LabellingSession([words, words], None, words=[words, words], classes=["PER", "LOC"], scheme="bio")
    page = opened(browser, served(session))
    drag(page, 1, 2)
    press(page, "1")
    assert session.labels()[0] == [None, "B-PER", "I-PER", None, None, None]
    assert spans(page) == [["PER", "Anna Smith"]]
    assert "B-" not in page.inner_text("main")
    # A label that is held: a drag and a click on Done are all of it.
    press(page, "n")
    page.click("#candidates button >> nth=0")
    ready(page)
    drag(page, 1, 2)
    page.click("#done")
    ready(page)
    assert session.labels()[1] == ["O", "B-PER", "I-PER", "O", "O", "O"]
    # Marking over a span takes its place, and a key takes it away.
    press(page, "Escape")
    drag(page, 2, 3)
    press(page, "2")
    assert session.labels()[1] == ["O", "O", "B-LOC", "I-LOC", "O", "O"]
    page.locator(".token").nth(3).click()
    press(page, "Backspace")
    assert spans(page) == []
    press(page, "Control+z", "Control+z", "Control+Shift+z")
    assert spans(page) == [["LOC", "Smith went"]]
    assert page.problems == []
    page.close()


@pytest.mark.parametrize("by", ["keyboard", "mouse"])
def test_from_raw_text_to_a_model(browser, served, tmp_path, by):
    """Thirty sentences by one hand alone; the file that is saved is trained on and predicted from the terminal."""
    X, y = sentences(30, seed=2)
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(map(" ".join, X)) + "\n", encoding="utf-8")
    file = open_file(str(path))
    session = LabellingSession(
        file.words,
        None,
        classes=["city"],
        scheme=file.scheme,
        words=file.words,
        file=file,
        journal=tmp_path / "journal",
    )
    page = opened(browser, served(session))

    def mark(begin, end):
        if by == "mouse":
            drag(page, begin, end - 1)
            page.click("#candidates button")
        else:
            press(page, "Home", *["ArrowRight"] * begin, *["Shift+ArrowRight"] * (end - begin - 1), "1")
        ready(page)

    def pressed(button, key):
        page.click(f"#{button}") if by == "mouse" else press(page, key)
        ready(page)

    corrected = 0
    for item in range(30):
        assert page.inner_text("#where").startswith(f"item {item + 1} of 30")
        true = {tuple(span) for span in entity_spans(y[item])}
        for _, begin, end in true - places(page):
            corrected += 1
            mark(begin, end)
        for _, begin, _ in places(page) - true:
            corrected += 1
            if by == "mouse":
                page.locator(".token").nth(begin).click()
            else:
                press(page, "Home", *["ArrowRight"] * begin)
            pressed("outside", "o")
        pressed("done", "d")
        if item == 11:
            pressed("refit", "r")
            assert "the new model is in place" in page.inner_text("#status")
            item_now = page.inner_text("#where").split(" of ")[0]
            assert item_now == "item 13"
    assert session.labels() == y
    assert corrected < sum(len(entity_spans(own)) for own in y)
    pressed("save", "Control+s")
    assert "wrote notes.conll" in page.inner_text("#status")
    assert page.problems == []
    page.close()
    session.close()
    saved, model = str(tmp_path / "notes.conll"), str(tmp_path / "model.safetensors")
    command = [sys.executable, "-m", "kernelfields.cli"]
    lines = subprocess.run([*command, "train", saved, "--model", model], capture_output=True, text=True, check=True)
    assert "3 labels (B-city, I-city, O)" in lines.stdout + lines.stderr
    told = subprocess.run([*command, "predict", model, saved], capture_output=True, text=True, check=True).stdout
    predicted = [line.split("\t")[-1] for line in told.splitlines() if line and not line.startswith("#")]
    assert set(predicted) <= {"B-city", "I-city", "O"}


def test_fixing_a_label_shows_what_changed_and_undo_brings_it_back(browser, served):
    X, _ = sentences(12, seed=1)
    item = next(i for i, words in enumerate(X) if "York" in words)
    X = [X[item], ["<b>bold</b>", "&amp;", "שלום"]]
    session = LabellingSession(X, None, city_model(), words=X)
    page = opened(browser, served(session))
    before = spans(page)
    place = X[0].index("York")
    page.locator(".token").nth(place).click()
    press(page, "o")
    assert spans(page) == [span for span in before if "York" not in span[1]]
    press(page, "u")
    assert spans(page) == before
    press(page, "b")
    assert page.locator("#more tr").count() == 5
    press(page, "e")
    assert page.locator("#more tr").count() > 1
    # Words that are marked by keys.
    press(page, "Home", "Shift+ArrowRight", "1")
    assert session.labels()[0][:2] == ["B-city", "I-city"]
    press(page, "n")
    words = page.evaluate("[...document.querySelectorAll('.token .word')].map((own) => own.textContent)")
    assert words == X[1]  # text is never markup
    assert page.problems == []
    page.close()


def test_two_tabs_do_not_overwrite_each_other(browser, served):
    X, _ = sentences(3, seed=1)
    session = LabellingSession(X, None, city_model(), words=X)
    address = served(session)
    one, two = opened(browser, address), opened(browser, address)
    press(one, "o")
    press(two, "1")
    assert "item 1 was changed elsewhere" in two.inner_text("#error")
    assert sum(entry is not None for entry in session.labels()[0]) == 1
    press(two, "ArrowRight", "o")
    assert sum(entry is not None for entry in session.labels()[0]) == 2
    one.close()
    two.close()


def test_time_lines_are_drawn_and_dragged(browser, served):
    random = np.random.default_rng(0)
    X = [np.column_stack([np.arange(1200) / 10, np.cumsum(random.normal(size=1200))]) for _ in range(2)]
    session = LabellingSession(X, None, classes=["rest", "move"], columns=["time", "x"])
    page = opened(browser, served(session))
    assert page.locator("#columns").is_visible()
    assert page.locator(".token").count() == 0
    box = page.locator("#columns").bounding_box()

    def at(position, first=0, count=400):
        """Where a position is drawn: beside names and scales, 84 pixels wide, and a border of one."""
        return box["x"] + 85 + (position - first + 0.5) * (box["width"] - 94) / count

    def pull(begin, end, height=60):
        page.mouse.move(at(begin), box["y"] + height)
        page.mouse.down()
        page.mouse.move(at(end), box["y"] + height, steps=5)
        page.mouse.up()
        ready(page)

    pull(100, 199)
    assert "marked 10 to 19.9, 100 positions" in page.inner_text("#where")
    press(page, "2")
    labels = session.labels()[0]
    assert [t for t, entry in enumerate(labels) if entry == "move"] == list(range(100, 200))
    pull(200, 299)
    press(page, "1")
    # The edge between them is moved.
    page.mouse.move(at(199.5), box["y"] + 15)
    page.mouse.down()
    page.mouse.move(at(240), box["y"] + 15, steps=5)
    page.mouse.up()
    ready(page)
    labels = session.labels()[0]
    assert labels[100:240] == ["move"] * 140
    assert labels[240:300] == ["rest"] * 60
    page.click("#later")
    ready(page)
    assert page.inner_text("#span") == "401 to 800 of 1200"
    press(page, "+")
    assert page.inner_text("#span").split(" of ")[1] == "1200"
    assert page.problems == []
    page.close()


def test_at_the_end_of_the_work_the_page_says_what_comes_next(browser, served, tmp_path):
    path = tmp_path / "new.conll"
    path.write_text("Anna\n\nran\n", encoding="utf-8")
    file = open_file(str(path))
    session = LabellingSession(file.words, None, words=file.words, classes=["PER"], scheme="bio", file=file)
    page = opened(browser, served(session))
    assert not page.locator("#finished").is_visible()
    colours = "[...document.querySelectorAll('.token, body')].map((own) => getComputedStyle(own).color)"
    assert len(set(page.evaluate(colours))) == 1  # text without a label is no paler than other text
    press(page, "1", "d", "d")
    assert "All done: nothing is left to label in new.conll." in page.inner_text("#finished")
    assert "Save first (s)" in page.inner_text("#finished")
    press(page, "s")
    assert "Save first" not in page.inner_text("#finished")
    assert f"kernelfields train {path} -m " in page.inner_text("#finished code >> nth=0")
    press(page, "u")
    assert not page.locator("#finished").is_visible()
    assert page.problems == []
    page.close()


GUIDELINES = """# How to label
Mark **names of people**, *not* their titles;
write `PER`, not person_name.

2. whole names
3. no titles
   - Dr, Mr

> "Dr Bob" is Bob
---
```
Dr [Bob **PER**]
```
<img src=x onerror="window.ran = 1"> <b>plain</b> &amp;
"""
DRAWN = [
    "<h2>How to label</h2>",
    "<p>Mark <strong>names of people</strong>, <em>not</em> their titles; write <code>PER</code>, not person_name.</p>",
    '<ol start="2"><li>whole names</li><li>no titles<ul><li>Dr, Mr</li></ul></li></ol>',
    '<blockquote>"Dr Bob" is Bob</blockquote>',
    "<hr>",
    "<pre>Dr [Bob **PER**]</pre>",
    '<p>&lt;img src=x onerror="window.ran = 1"&gt; &lt;b&gt;plain&lt;/b&gt; &amp;amp;</p>',
]


def test_guidelines_stand_beside_the_items_and_are_never_run(browser, served):
    words = [["Anna", "ran"]]
    page = opened(browser, served(LabellingSession(words, None, words=words, classes=["PER"], guidelines=GUIDELINES)))
    assert page.locator("#guidelines").is_visible()
    assert page.evaluate("[...document.querySelector('#guidelines').children].map((own) => own.outerHTML)") == DRAWN
    press(page, "i")
    assert not page.locator("#guidelines").is_visible()
    page.close()
    html = "<!DOCTYPE html>\n<html><script>window.ran = 1</script><h1>Rules</h1></html>"
    page = opened(browser, served(LabellingSession(words, None, words=words, classes=["PER"], guidelines=html)))
    assert page.inner_text("#guidelines pre") == html
    assert page.evaluate("window.ran") is None
    assert page.problems == []
    page.close()
    page = opened(browser, served(LabellingSession(words, None, words=words, classes=["PER"])))
    assert not page.locator("#guide").is_visible()
    page.close()


def test_forty_disagreements_of_two_annotators_take_a_key_each(browser, served):
    words = [["we", "saw", "Anna", "Smith", "."]] * 42
    left = [["O", "O", "B-PER", "I-PER", "O"]] * 42
    right = [left[0], *[["O", "O", "B-PER", "O", "O"], ["O", "O", "B-ORG", "I-ORG", "O"]] * 20, [None] * 5]
    session = LabellingSession(words, None, words=words, annotators={"anna": left, "ben": right})
    assert len(session.places("disagreements")) == 40
    page = opened(browser, served(session))
    assert page.inner_text("#finding") == "1 of 40: item 2, anna: [Anna Smith] PER, ben: [Anna] PER"
    press(page, *["ArrowLeft", "ArrowRight"] * 19)
    assert page.inner_text("#finding").startswith("39 of 40: item 40")
    page.click("#other")
    ready(page)
    press(page, "k")
    assert not page.locator("#tour").is_visible()
    decided = [own for pair in zip(left[1:39:2], right[2:40:2], strict=True) for own in pair]
    undecided = ["O", "O", None, None, "O"]
    assert session.labels() == [left[0], *decided, right[39], undecided, left[0]]
    press(page, "x")
    assert page.inner_text("#finding").startswith("1 of 1: item 41")
    assert page.problems == []
    page.close()


@pytest.mark.filterwarnings("ignore:left out of the features")
def test_the_axis_shows_the_clock_with_gaps_as_they_are(browser, served, tmp_path):
    path = tmp_path / "rooms.csv"
    clock = [*range(0, 60, 2), *range(540, 600, 2)]  # seconds, with eight minutes without a row
    rows = [f"monday,2024-01-01 10:{each // 60:02}:{each % 60:02},{each},{each % 7},?" for each in clock]
    path.write_text("\n".join(["day,time,x,y,state", *rows]) + "\n")
    file = open_file(str(path), sequence="day", label="state", lanes=["y"])
    session = LabellingSession(file.X, file.y, classes=["rest"], columns=file.columns, file=file)
    page = opened(browser, served(session))
    assert page.inner_text("#where") == "monday, 1 of 1"
    assert page.inner_text("#queue li") == "monday\n60 positions · new"
    box = page.locator("#columns").bounding_box()
    width = box["width"] - 94

    def at(second):
        return box["x"] + 85 + second / 600 * width

    page.mouse.move(at(541), box["y"] + 60)
    page.mouse.down()
    page.mouse.move(at(599), box["y"] + 60, steps=3)
    page.mouse.up()
    ready(page)
    assert "marked 2024-01-01 10:09:00 to 10:09:58, 30 positions" in page.inner_text("#where")
    press(page, "1")
    assert session.labels()[0] == [None] * 30 + ["rest"] * 30
    # A place in the gap belongs to the position before it.
    page.mouse.click(at(300), box["y"] + 60)
    ready(page)
    assert "marked 2024-01-01 10:00:58 to 10:00:58" in page.inner_text("#where")
    assert page.problems == []
    page.close()


def test_labels_that_may_be_wrong_and_doubtful_words_one_by_one(browser, served):
    X, y = sentences(60, seed=1)
    known = [list(own) for own in y]
    wrong = [item for item, own in enumerate(y) if "B-city" in own][:2]
    for item in wrong:
        known[item] = ["O"] * len(y[item])
    known[50:] = [None] * 10
    session = LabellingSession(X, known, city_model(), words=X)
    page = opened(browser, served(session))
    assert page.inner_text("#where").startswith("item 51 of 60")  # the first that is not done
    press(page, "c")
    found = page.inner_text("#finding")
    assert "given no span, the model says city (0." in found
    places = session.places("findings")
    item = places[0]["item"]
    assert f"1 of {len(places)}: item {item + 1}," in found
    assert page.locator(".token.marked").count() == places[0]["end"] - places[0]["begin"]
    press(page, "y")
    assert session.labels()[item] == y[item]
    for _ in places[1:]:
        press(page, "k")
    assert not page.locator("#tour").is_visible()
    # Doubtful words, in one item after the other.
    press(page, "j")
    page.keyboard.type("51")
    press(page, "Enter")
    session.show(50)
    doubts = [
        (item, t)
        for item in range(50, 60)
        for t, own in enumerate(session.show(item)["positions"])
        if own["from"] == "predicted" and own["p"] < 0.9
    ]
    for item, t in doubts[:3] if doubts and doubts[0][1] else doubts[1:3]:
        press(page, "Tab")
        assert page.inner_text("#where").startswith(f"item {item + 1} of 60")
        assert page.get_attribute(".token.cursor", "data-t") == str(t)
    # A refit says what it changed.
    press(page, "r")
    if session.places("changed"):
        assert "predictions changed" in page.inner_text("#status") or "prediction changed" in page.inner_text("#status")
        press(page, "v")
        assert "was " in page.inner_text("#finding")
    assert page.problems == []
    page.close()


def test_the_list_finds_filters_flags_and_repeats(browser, served):
    X, _ = sentences(60, seed=1)
    session = LabellingSession(X, None, words=X, classes=["city", "river"], scheme="bio")
    page = opened(browser, served(session))
    assert page.inner_text("#progress") == "0 of 60 done"
    press(page, "f")
    page.keyboard.type("york")
    ready(page)
    with_york = [item for item, words in enumerate(X) if "York" in words]
    assert page.locator("#queue li").count() == len(with_york)
    assert "New York" in page.inner_text("#queue li >> nth=0")
    page.click("#queue li button >> nth=0")
    ready(page)
    assert page.inner_text("#where").startswith(f"item {with_york[0] + 1} of 60")
    begin = X[with_york[0]].index("New")
    drag(page, begin, begin + 1)
    press(page, "1", "ArrowLeft", "a")
    occurrences = sum(words.count("York") for words in X)
    assert f"{occurrences - 1} more times New York" in page.inner_text("#more")
    page.click("#more button")
    ready(page)
    marked = sum(own.count("B-city") for own in session.labels())
    assert marked == occurrences
    assert page.inner_text("#candidates .count >> nth=0") == str(occurrences)
    press(page, "u")
    assert sum(own.count("B-city") for own in session.labels()) == 1
    press(page, "Control+Shift+z")
    assert sum(own.count("B-city") for own in session.labels()) == occurrences
    press(page, "g")
    page.keyboard.type("two readings")
    press(page, "Enter")
    page.fill("#find", "")
    page.select_option("#part", "flagged")
    ready(page)
    assert page.locator("#queue li").count() == 1
    assert "two readings" in page.inner_text("#queue")
    page.select_option("#part", "all")
    page.select_option("#with", '"city"')
    ready(page)
    assert page.locator("#queue li").count() == len(with_york)
    assert page.problems == []
    page.close()


def test_on_a_phone_everything_is_in_reach(browser, served, tmp_path):
    X, _ = sentences(40, seed=1)
    path = tmp_path / "new.conll"
    path.write_text(written(X), encoding="utf-8")
    file = open_file(str(path))
    session = LabellingSession(X, None, words=X, classes=["city", "river"], scheme="bio", file=file)
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(served(session))
    ready(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for button in ("#save", "#undo", "#done", "#candidates button >> nth=0"):
        box = page.locator(button).bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        assert 0 <= box["y"] <= box["y"] + box["height"] <= 844
    assert page.locator("#candidates button >> nth=0").bounding_box()["y"] > 500  # at the thumb
    page.locator(".token").nth(0).tap()
    ready(page)
    page.locator("#candidates button").nth(0).tap()
    ready(page)
    assert session.labels()[0][0] == "B-city"
    # A finger that is drawn over words marks them.
    boxes = [page.locator(".token").nth(place).bounding_box() for place in (1, 2)]
    places = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
    touch = page.context.new_cdp_session(page)
    steps = np.linspace(places[0], places[1], 6).tolist()
    for kind, points in [("touchStart", steps[:1]), *(("touchMove", [point]) for point in steps[1:]), ("touchEnd", [])]:
        known = [{"x": x, "y": y} for x, y in points]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": known})
    page.wait_for_function("document.querySelectorAll('.token.marked').length == 2")  # touches come a little later
    page.wait_for_timeout(500)  # a tap at once would belong to the same gesture
    ready(page)
    page.locator("#candidates button").nth(1).tap()
    ready(page)
    assert session.labels()[0][1:3] == ["B-river", "I-river"]
    assert not page.locator("#queue").is_visible()
    page.locator("#drawer").tap()
    page.locator("#queue li button").nth(4).tap()
    ready(page)
    assert page.inner_text("#where").startswith("item 5 of 40")
    assert not page.locator("#queue").is_visible()
    # Every control has a name for those who do not see it, and is reached by Tab.
    names = page.evaluate(
        "[...document.querySelectorAll('button, input, select')].filter((own) => own.checkVisibility())"
        ".map((own) => (own.ariaLabel || own.textContent || own.title || own.labels?.[0]?.textContent || '').trim())"
    )
    assert all(names)
    assert page.evaluate("[...document.querySelectorAll('button, input, select')].every((own) => own.tabIndex === 0)")
    assert page.problems == []
    page.close()


def test_a_thousand_labels_are_searched_as_one_types(browser, served):
    labels = [f"label{number}" for number in range(1000)]
    session = LabellingSession([["a", "b"]], None, classes=labels, words=[["a", "b"]])
    page = opened(browser, served(session))
    press(page, "/")
    page.keyboard.type("label777")
    press(page, "Enter")
    assert session.labels()[0][0] == "label777"
    page.close()


def test_nodes_of_graphs_and_sets_of_labels_in_a_table(browser, served):
    random = np.random.default_rng(0)
    X = [(random.normal(size=(4, 2)), [[0, 1], [1, 2], [2, 3]]) for _ in range(3)]
    y = [np.where(nodes[:, 0] > 0, "warm", "cold").tolist() for nodes, _ in X]
    model = GraphCRF("linear", prior_variance=1.0).fit(X, y)
    session = LabellingSession(X, None, model, words=[["north", "east", "south", "west"]] * 3)
    page = opened(browser, served(session))
    assert page.locator("#tokens.table .token").count() == 4
    assert page.inner_text(".token .word >> nth=1") == "east"
    assert page.inner_text(".token .cell >> nth=0") == "east"  # beside north
    assert page.locator("#graph circle").count() == 4
    assert page.locator("#graph line").count() == 3
    page.click("#graph g[data-t='1'] circle")
    press(page, "2")
    assert session.labels()[0][1] == "warm"
    press(page, "Shift+1", "Shift+2")
    assert session.labels()[0][2] == {"warm", "cold"}
    assert "|" in tags(page)[2]
    press(page, "Shift+1", "Shift+2")
    assert session.labels()[0][2] is None
    assert page.problems == []
    page.close()


def test_single_inputs_go_to_the_next_and_suspicious_ones_come_first(browser, served):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "plus", "minus").tolist()
    wrong = int(np.argmax(X[:, 0]))
    y[wrong] = "minus"
    session = LabellingSession(
        X, y, KernelClassifier("linear", prior_variance=10.0), words=[f"<b>{i}" for i in range(60)]
    )
    page = opened(browser, served(session))
    assert page.inner_text("#text") == "<b>0"
    page.select_option("#order", "suspicious")
    ready(page)
    assert f"item {wrong + 1} " in page.inner_text("#queue li >> nth=0")
    page.click("#queue li button >> nth=0")
    ready(page)
    assert page.locator(".token.suspect").count() == 1
    assert "perhaps plus" in page.get_attribute(".token", "title")
    press(page, "/")
    page.keyboard.type("plus")
    press(page, "Enter")
    assert session.labels()[wrong] == "plus"
    assert page.inner_text("#where") != f"item {wrong + 1} of 60"
    page.close()


SERVER = """
import sys
from kernelfields.page.files import open_file
from kernelfields.page.session import LabellingSession
from kernelfields.page.server import Server
file = open_file(sys.argv[1])
known = {"classes": ["a", "b"], "words": file.words, "file": file, "journal": sys.argv[2]}
labelling = LabellingSession(file.words, file.read.y, **known)
server = Server(labelling)
print(server.port, server.token, flush=True)
server.run()
"""


def asked(address, token, question, body):
    headers = {"Content-Type": "application/json", "X-Kernelfields-Token": token}
    request = urllib.request.Request(f"{address}/api/{question}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.filterwarnings("ignore:lines of journal that cannot be used")  # cut off by the kill
@pytest.mark.parametrize("kills", [int(os.environ.get("KERNELFIELDS_KILLS", "5"))])
def test_nothing_that_was_acknowledged_is_lost_when_the_server_is_killed(kills, tmp_path):
    random = np.random.default_rng(0)
    X, _ = sentences(10, seed=1)
    path, journal = tmp_path / "new.conll", tmp_path / "journal"
    path.write_text(written(X), encoding="utf-8")
    known = {}  # what the server answered that it has

    def reopened():
        file = open_file(str(path))
        return LabellingSession(file.words, file.read.y, words=file.words, file=file, journal=journal)

    for _ in range(kills):
        command = [sys.executable, "-c", SERVER, str(path), str(journal)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            port, token = running.stdout.readline().split()
            address = f"http://127.0.0.1:{port}"
            killer = threading.Timer(float(random.uniform(0.0, 0.01)), running.send_signal, [signal.SIGKILL])
            doubtful, fatal = None, int(random.integers(50))
            try:
                for number in range(50):
                    item, label = int(random.integers(10)), str(random.choice(["a", "b"]))
                    place = int(random.integers(len(X[item])))
                    found = asked(address, token, "item", {"item": item})
                    for t, own in enumerate(found["positions"]):
                        assert own["label"] == known.get((item, t)), "an action was lost"
                    if number == fatal:
                        killer.start()
                    doubtful = (item, place)  # sent, and not acknowledged yet
                    body = {"item": item, "version": found["version"], "changes": [[place, [label]]]}
                    asked(address, token, "change", body)
                    known[item, place], doubtful = label, None
                    if random.random() < 0.1:
                        asked(address, token, "save", {})
            except urllib.error.HTTPError:
                raise  # an answer, and not the right one
            except (urllib.error.URLError, ConnectionError, http.client.HTTPException):
                assert number >= fatal  # killed
            running.kill()
        killer.cancel()
        session = reopened()
        if doubtful is not None:  # it may have been written, or not
            known[doubtful] = session.labels()[doubtful[0]][doubtful[1]]
        session.close()
        for (item, place), label in known.items():
            assert session.labels()[item][place] == label
    assert len(known) > 5
    assert sorted(each.name for each in Path(tmp_path).iterdir()) == ["journal", "new.conll"]


def test_texts_are_drawn_as_they_were_written(browser, served, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Call  your mother.\nMail bob@x.org, 😀 if possible\n")
    file = open_file(str(path))
    session = LabellingSession(file.X, None, words=file.words, file=file, scheme="bio", classes=["X"])
    page = opened(browser, served(session))
    assert page.inner_text("#tokens") == "Call  your mother."
    press(page, "n")
    assert page.inner_text("#tokens") == "Mail bob@x.org, 😀 if possible"
    drag(page, 1, 5)
    press(page, "1")
    assert spans(page) == [["X", "bob @ x . org"]]
    assert page.inner_text("#tokens .span") == "bob@x.orgX"
    assert page.problems == []


def letter(page, word, number, after=False):
    """Return the middle of the edge of a letter of a word on the page."""
    return page.evaluate(
        """([word, number, after]) => {
          const text = [...document.querySelectorAll('.word')].find((own) => own.textContent === word).firstChild;
          const range = document.createRange();
          const sizes = Array.from(word).map((each) => each.length);
          const units = (count) => sizes.slice(0, count).reduce((a, b) => a + b, 0);
          range.setStart(text, units(number)); range.setEnd(text, units(number + 1));
          const box = range.getBoundingClientRect();
          return [after ? box.right - 1 : box.left + 1, (box.top + box.bottom) / 2];
        }""",
        [word, number, after],
    )


def drag_letters(page, first, last):
    """Drag with Alt from the begin of a letter to the end of another."""
    page.keyboard.down("Alt")
    page.mouse.move(*first)
    page.mouse.down()
    page.mouse.move(*last, steps=4)
    page.mouse.up()
    page.keyboard.up("Alt")
    ready(page)


def test_parts_of_words_are_marked_by_mouse_and_by_keyboard(browser, served, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Ann Smith-Jones 😀😀took 5mg.\nالمدرسة القديمة هنا\n", encoding="utf-8")
    file = open_file(str(path))
    session = LabellingSession(file.X, None, words=file.words, file=file, scheme="bio", classes=["X"])
    page = opened(browser, served(session))
    drag_letters(page, letter(page, "Smith-Jones", 6), letter(page, "Smith-Jones", 10, after=True))
    press(page, "1")
    assert spans(page) == [["X", "Jones"]]
    drag_letters(page, letter(page, "😀😀took", 1), letter(page, "😀😀took", 3, after=True))
    press(page, "1")
    assert spans(page) == [["X", "Jones"], ["X", "😀to"]]
    press(page, "End", "ArrowLeft", "w", "Enter")  # the first of two places in 5mg
    assert session.show(0)["words"][-4:] == ["ok", "5", "mg", "."]
    press(page, "1")
    assert spans(page) == [["X", "Jones"], ["X", "😀to"], ["X", "mg"]]
    assert page.inner_text("#tokens").replace("X", "") == "Ann Smith-Jones 😀😀took 5mg."
    press(page, "u", "u")
    assert session.show(0)["words"][-2:] == ["5mg", "."]
    press(page, "n")
    word = "المدرسة"  # its article is at the right
    drag_letters(page, letter(page, word, 2, after=True), letter(page, word, 6))
    assert session.show(1)["words"][:2] == ["ال", "مدرسة"]
    assert page.problems == []


def test_an_item_is_large_and_its_neighbours_are_grey(browser, served, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("We saw her.\nShe was far away, though.\nThen she left us.\n")
    file = open_file(str(path))
    session = LabellingSession(file.X, None, words=file.words, file=file, scheme="bio", classes=["X"])
    page = opened(browser, served(session))
    assert page.is_hidden("#before")
    press(page, "n")
    assert [page.inner_text(name) for name in ("#before", "#after")] == ["We saw her.", "Then she left us."]
    size = "(name) => parseFloat(getComputedStyle(document.querySelector(name)).fontSize)"
    assert page.evaluate(size, "#tokens") >= 1.4 * page.evaluate(size, "#before")
    colour = "(name) => getComputedStyle(document.querySelector(name)).color"
    assert page.evaluate(colour, "#before") != page.evaluate(colour, "#tokens")
    assert page.problems == []


def test_a_label_is_explained_in_words(browser, served):
    X, _ = sentences(12, seed=1)
    session = LabellingSession(X, None, city_model(), words=X, scheme="bio")
    page = opened(browser, served(session))
    place = next(k for k, own in enumerate(session.show(0)["positions"]) if own["kind"] == "city")
    press(page, *["ArrowRight"] * place, "e")
    told = page.inner_text("#more .why")
    assert re.fullmatch(
        r"city \(begins\) 0\.\d\d, rather than no span 0\.\d\d: mostly because of .* \(\+\d\.\d\).*\.", told
    )
    assert "=" not in told
    assert page.inner_text("#legend").startswith("dashed and pale: predicted")
    assert page.problems == []


def test_reasons_for_a_label_are_words(browser, served):
    session = LabellingSession([["a"]], None, words=[["a"]], classes=["X"], scheme="bio")
    page = opened(browser, served(session))
    found = {
        "label": "NOUN",
        "probability": 0.93,
        "other": "VERB",
        "other_probability": 0.05,
        "contributions": [
            {"kind": "feature", "name": "word=cat", "amount": 1.2},
            {"kind": "transition", "name": "transition from B-DET", "amount": 0.6},
            {"kind": "feature", "name": "lower[-1]=the", "amount": 0.2},
            {"kind": "feature", "name": "suffix3[2]=ing", "amount": -0.9},
        ],
    }
    ask = "async (found) => (await import('/explain.js')).sentences(found)"
    assert page.evaluate(ask, found) == (
        "NOUN 0.93, rather than VERB 0.05: mostly because of the word 'cat' (+1.2) and the label before, DET (+0.6). "
        "Against it: the ending 'ing' of the word 2 after (−0.9)."
    )
    rule = {**found, "contributions": [{"kind": "rule", "name": "rule", "amount": None}]}
    assert page.evaluate(ask, rule).endswith("the rules of the labels leave nothing else.")
