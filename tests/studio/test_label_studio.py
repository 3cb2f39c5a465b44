"""The backend of Label Studio: configurations, predictions in its format, fits to annotations, and what is refused."""

import json
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra page is not installed")
pytest.importorskip("httpx", reason="Starlette's test client needs httpx")

from starlette.testclient import TestClient
from typer.testing import CliRunner

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SequenceClassifier, load, save
from kernelfields.cli.app import app
from kernelfields.studio.annotations import AnnotationsError
from kernelfields.studio.backend import Backend
from kernelfields.studio.configuration import ConfigurationError, find_control
from kernelfields.studio.server import StudioServer, make_app

TEXT = """<View>
  <Labels name="label" toName="text"><Label value="person" alias="PER"/><Label value="CITY" /></Labels>
  <Text name="text" value="$text"/>
</View>"""
SERIES = """<View>
  <TimeSeriesLabels name="label" toName="ts"><Label value="run"/></TimeSeriesLabels>
  <TimeSeries name="ts" valueType="json" value="$ts" timeColumn="t">
    <Channel column="a"/><Channel column="b"/></TimeSeries>
</View>"""
CHOICES = """<View>
  <Text name="review" value="$review"/>
  <Choices name="tone" toName="review"><Choice value="good"/><Choice value="bad"/></Choices>
</View>"""
SENTENCES = ["Ann met Bob in Rome.", "Bob lives in New York!", "They left Rome", "Ann saw New York"]
SPANS = [[(0, 3, "PER"), (8, 11, "PER"), (15, 19, "CITY")], [(0, 3, "PER"), (13, 21, "CITY")], [(10, 14, "CITY")]]
SPANS += [[(0, 3, "PER"), (8, 16, "CITY")]]
#: TEXT with the labels of the model.
PLAIN = TEXT.replace('value="person" alias="PER"', 'value="PER"')
PARTS = {"id", "from_name", "to_name", "type", "value", "score"}


def region(text, begin, end, label, name="r"):
    value = {"start": begin, "end": end, "text": text[begin:end], "labels": [label]}
    return {"id": f"{name}{begin}", "from_name": "label", "to_name": "text", "type": "labels", "value": value}


def submitted(number, text=None, spans=None, config=TEXT, action="ANNOTATION_CREATED", project=1, annotation=None):
    text = SENTENCES[number] if text is None else text
    result = [region(text, *span) for span in (SPANS[number] if spans is None else spans)]
    return {
        "action": action,
        "project": {"id": project, "label_config": config},
        "task": {"id": number, "data": {"text": text}},
        "annotation": {"id": annotation or number + 10, "result": result, "was_cancelled": False},
    }


def assert_label_studio_takes(config, *predictions):
    """Compare predictions with Label Studio's own schema, where its client is installed, and with ours of it."""
    for found in predictions:
        assert set(found) == {"result", "score", "model_version"}
        assert {key for one in found["result"] for key in one} <= PARTS
        assert json.loads(json.dumps(found)) == found
    with suppress(ImportError):
        from label_studio_sdk.label_interface import LabelInterface

        for found in predictions:
            assert LabelInterface(config).validate_prediction(found, return_errors=True) == []


class Served:
    """A backend with a client, and the lines it said."""

    def __init__(self, path, **settings):
        self.lines = []
        output = settings.pop("output", path)
        self.backend = Backend(path, output, say=self.lines.append, **settings)
        self.client = TestClient(make_app(self.backend), base_url="http://localhost")

    def ask(self, route, status=200, **body):
        answer = self.client.post(route, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def refused(self, route, **body):
        (line,) = self.ask(route, 400, **body)["error"].splitlines()
        return line

    def predict(self, config, *data):
        tasks = [{"id": number, "data": own} for number, own in enumerate(data)]
        return self.ask("/predict", tasks=tasks, label_config=config, project="1.2")["results"]


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """A model of words with the labels PER and CITY."""
    path = tmp_path_factory.mktemp("names") / "names.kfm"
    served = Served(path, beginning="nothing", every=0)
    for number in range(4):
        served.ask("/webhook", 201, **submitted(number, config=PLAIN))
    served.ask("/webhook", 201, action="START_TRAINING", project={"id": 1, "label_config": PLAIN})
    served.backend.wait()
    assert served.backend.problem is None
    return path


def test_a_model_begins_with_annotations_alone(names):
    served = Served(names)
    config = PLAIN
    text = "🙂 Ann lives in New York"
    (found,) = served.predict(config, {"text": text})
    assert [(one["value"]["start"], one["value"]["end"]) for one in found["result"]] == [(2, 5), (15, 23)]
    assert [one["value"]["text"] for one in found["result"]] == ["Ann", "New York"]
    assert [one["value"]["labels"] for one in found["result"]] == [["PER"], ["CITY"]]
    assert {(one["type"], one["from_name"], one["to_name"]) for one in found["result"]} == {("labels", "label", "text")}
    model = load(names)
    words = ["🙂", "Ann", "lives", "in", "New", "York"]
    assert [one["score"] for one in found["result"]] == pytest.approx(
        [entity.probability for entity in model.predict_entities([words])[0]]
    )
    assert found["score"] == pytest.approx(model.predict_marginals([words])[0].max(axis=1).min())
    assert served.predict(config, {"text": " "})[0]["result"] == []


def test_label_studio_takes_the_predictions(names):
    config = PLAIN
    found = Served(names).predict(config, *({"text": text} for text in SENTENCES))
    assert all(one["result"] for one in found)
    assert_label_studio_takes(config, *found)


def test_fits_go_on_from_data_and_count_each_task_once(names, tmp_path):
    X = [["Ann", "sleeps"], ["Rome", "sleeps"]]
    data = (X * 3, [["B-PER", "O"], ["B-CITY", "O"]] * 3)
    config, output = PLAIN, tmp_path / "out.kfm"
    before = names.read_bytes()
    served = Served(names, output=output, beginning="data", data=data)
    version = served.ask("/setup", project="1.5", schema=config)["model_version"]
    text = "Zoe sleeps"
    answer = served.ask("/webhook", 201, **submitted(0, text, [(0, 3, "CITY")], config, annotation=5))
    assert answer["status"] == "ok"
    served.ask("/webhook", 201, **submitted(0, text, [(0, 3, "PER")], config, "ANNOTATION_UPDATED", annotation=5))
    served.backend.wait()
    assert names.read_bytes() == before
    (found,) = served.predict(config, {"text": text})
    assert [one["value"]["labels"] for one in found["result"]] == [["PER"]]
    assert found["model_version"] != version
    assert len(served.backend.annotations.latest()) == 1
    again = Served(names, output=output, beginning="data", data=data)
    assert again.predict(config, {"text": text}) == [found]
    deleted = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 5}], "project": {"id": 1}}
    again.ask("/webhook", 201, **deleted)
    assert again.backend.annotations.latest() == []
    assert Served(names, output=output).backend.annotations.latest() == []


def test_spans_that_cut_words_are_widened_and_skipped_tasks_do_not_count(names, tmp_path):
    config = PLAIN
    served = Served(names, output=tmp_path / "out.kfm", every=0)
    served.ask("/webhook", 201, **submitted(0, "Zoe-Ann ran", [(0, 3, "PER")], config))
    skipped = submitted(1, config=config)
    skipped["annotation"]["was_cancelled"] = True
    served.ask("/webhook", 201, **skipped)
    (own,) = served.backend.annotations.latest()
    reader = served.backend.reader(config)
    item = reader.read(own.data, "task 0")
    assert reader.labels(load(names), item, own.result, "task 0") == ["B-PER", "O"]


def recordings(n):
    random = np.random.default_rng(0)
    y = [np.repeat(random.permutation(["run", "rest", "run"]), 8) for _ in range(n)]
    X = [np.where(labels == "run", 1.0, -1.0)[:, None] + 0.2 * random.normal(size=(24, 2)) for labels in y]
    return X, y


def test_time_series_have_segments_between_their_times(tmp_path):
    X, y = recordings(6)
    model = ChainCRF("rbf", prior_variance=1.0, random_state=0)
    for number in range(2):
        model.partial_fit(X[3 * number : 3 * number + 3], y[3 * number : 3 * number + 3])
    save(model, tmp_path / "run.kfm")
    served = Served(tmp_path / "run.kfm", output=tmp_path / "out.kfm")
    times = [0.5 * step for step in range(24)]
    data = {"ts": {"t": times, "a": X[0][:, 0].tolist(), "b": X[0][:, 1].tolist()}}
    (found,) = served.predict(SERIES, data)
    for one in found["result"]:
        value = one["value"]
        assert value["timeserieslabels"] == ["run"]
        assert value["instant"] is False
        assert (
            np.asarray(y[0])[(np.array(times) >= value["start"]) & (np.array(times) <= value["end"])] == "run"
        ).all()
    reader = served.backend.reader(SERIES)
    item = reader.read(data, "task 0")
    assert reader.labels(served.backend.model, item, found["result"], "task 0") == y[0].tolist()
    body = submitted(0, config=SERIES)
    body["task"]["data"], body["annotation"]["result"] = data, found["result"]
    served.ask("/webhook", 201, **body)
    served.backend.wait()
    assert served.backend.problem is None
    assert served.lines[-1].startswith("fitted to 1 annotation")
    assert_label_studio_takes(SERIES, found)


def test_items_have_choices(tmp_path):
    X = [["fine", "film"], ["awful", "film"], ["fine", "fine", "play"], ["awful", "play"]] * 3
    model = SequenceClassifier(random_state=0).fit(X, ["good", "bad", "good", "bad"] * 3)
    save(model, tmp_path / "tone.kfm")
    served = Served(tmp_path / "tone.kfm")
    (found,) = served.predict(CHOICES, {"review": "fine fine film"})
    assert found["result"][0]["value"] == {"choices": ["good"]}
    assert found["score"] == pytest.approx(model.predict_proba([["fine", "fine", "film"]]).max())
    assert_label_studio_takes(CHOICES, found)


def rows_of(count, seed=0):
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(count, 2))
    return numbers, [{"row": {"b": float(b), "a": float(a)}} for a, b in numbers]


def chosen(number, data, choices, config, annotation=None):
    value = {"choices": choices}
    result = [{"id": "c", "from_name": "kind", "to_name": "row", "type": "choices", "value": value}] if choices else []
    return {
        "action": "ANNOTATION_CREATED",
        "project": {"id": 1, "label_config": config},
        "task": {"id": number, "data": data},
        "annotation": {"id": annotation or number + 100, "result": result, "was_cancelled": False},
    }


ONE = """<View>
  <Table name="row" value="$row"/>
  <Choices name="kind" toName="row"><Choice value="low"/><Choice value="high"/></Choices>
</View>"""
SEVERAL = ONE.replace("<Choices ", '<Choices choice="multiple" ')


def test_rows_of_numbers_have_a_choice_or_several(tmp_path):
    pd = pytest.importorskip("pandas")
    numbers, tasks = rows_of(40)
    frame = pd.DataFrame(numbers, columns=["a", "b"])
    one = KernelClassifier("linear", prior_variance=1.0, random_state=0)
    one.fit(frame, np.where(numbers[:, 0] > 0, "high", "low"))
    several = MultiLabelCRF("linear", prior_variance=1.0, random_state=0)
    several.fit(frame, pd.DataFrame((numbers > 0).astype(int), columns=["low", "high"]))
    for model, config in ((one, ONE), (several, SEVERAL)):
        save(model, tmp_path / "rows.kfm")
        found = Served(tmp_path / "rows.kfm").predict(config, *tasks)
        assert_label_studio_takes(config, *found)
        chances = model.predict_proba(frame)
        for answer, row, predicted in zip(found, chances, model.predict(frame), strict=True):
            choices = [choice for own in answer["result"] for choice in own["value"]["choices"]]
            expected = (
                [predicted] if model is one else [n for n, own in zip(["low", "high"], predicted, strict=True) if own]
            )
            assert choices == expected
            score = row.max() if model is one else np.maximum(row, 1.0 - row).min()
            assert answer["score"] == pytest.approx(score)


@pytest.mark.parametrize("config", [ONE, SEVERAL])
def test_rows_of_numbers_are_fitted_from_nothing_and_from_a_model(config, tmp_path):
    pytest.importorskip("pandas")
    numbers, tasks = rows_of(30, seed=1)
    choices = [[name for name, number in zip(["low", "high"], row, strict=True) if number > 0] for row in numbers]
    if config == ONE:
        choices = [["high" if row[0] > 0 else "low"] for row in numbers]
    served = Served(tmp_path / "rows.kfm", beginning="nothing", every=0)
    for number, (data, own) in enumerate(zip(tasks, choices, strict=True)):
        served.ask("/webhook", 201, **chosen(number, data, own, config))
    served.backend.fit()
    served.backend.wait()
    assert served.backend.problem is None
    turned = [{"row": dict(reversed(data["row"].items()))} for data in tasks]  # columns go by their names
    found = served.predict(config, *turned)
    listed = [[choice for own in answer["result"] for choice in own["value"]["choices"]] for answer in found]
    assert np.mean([own == true for own, true in zip(listed, choices, strict=True)]) > 0.8
    later = Served(tmp_path / "rows.kfm", output=tmp_path / "later.kfm", every=1)
    later.ask("/webhook", 201, **chosen(99, tasks[0], choices[0], config))
    later.backend.wait()
    assert "begin with it, on a clone; --train FILE fits the model to its data" in later.backend.problem


@pytest.mark.parametrize("estimator", [KernelClassifier, MultiLabelCRF])
def test_rows_of_numbers_go_on_from_batches(estimator, tmp_path):
    numbers, tasks = rows_of(40, seed=2)
    several, config = estimator is MultiLabelCRF, SEVERAL if estimator is MultiLabelCRF else ONE
    config = config.replace('value="low"', 'value="0"').replace('value="high"', 'value="1"')
    y = (numbers > 0).astype(int) if several else (numbers[:, 0] > 0).astype(int).astype(str)
    save(estimator("rbf", prior_variance=1.0, random_state=0).partial_fit(numbers[:30], y[:30]), tmp_path / "rows.kfm")
    swapped = [{"row": {name: data["row"][name] for name in ("a", "b")}} for data in tasks]  # in the order of the model
    served = Served(tmp_path / "rows.kfm", output=tmp_path / "out.kfm", every=0)
    for number in range(30, 40):
        choices = [str(place) for place in np.flatnonzero(y[number])] if several else [y[number]]
        served.ask("/webhook", 201, **chosen(number, swapped[number], choices, config))
    served.backend.fit()
    served.backend.wait()
    assert served.backend.problem is None
    expected = load(tmp_path / "rows.kfm").partial_fit(numbers[30:], y[30:]).predict_proba(numbers[:5])
    np.testing.assert_allclose(load(tmp_path / "out.kfm").predict_proba(numbers[:5]), expected, atol=1e-6)


def test_choices_that_do_not_fit_are_refused_in_one_line(tmp_path):
    numbers, tasks = rows_of(20)
    path = tmp_path / "rows.kfm"
    save(KernelClassifier("linear", prior_variance=1.0).fit(numbers, np.where(numbers[:, 0] > 0, "high", "low")), path)
    served = Served(path, output=tmp_path / "out.kfm")
    assert "allows several choices, and the model chooses one" in served.refused("/setup", project="1", schema=SEVERAL)
    texts = ONE.replace("<Table ", "<Text ")
    assert "it takes rows of numbers, which <Table> shows" in served.refused("/setup", project="1", schema=texts)
    asked = {"label_config": ONE}
    for row, said in (
        ({"a": 1.0}, "has the columns 'a', and the model takes 2 columns"),
        ({"a": 1.0, "b": "x"}, "must hold finite numbers: 'b'"),
        ([1.0, 2.0], "must be an object of numbers"),
    ):
        assert said in served.refused("/predict", tasks=[{"id": 0, "data": {"row": row}}], **asked)
    assert "expected one choice of <Choices name='kind'>" in served.refused(
        "/webhook", **chosen(1, tasks[0], ["low", "high"], ONE)
    )
    fresh = Served(tmp_path / "new.kfm", beginning="nothing")
    reviews = CHOICES.replace("<Choices ", '<Choices choice="multiple" ')
    assert "only rows of a <Table> can have" in fresh.refused("/setup", project="1", schema=reviews)
    save(MultiLabelCRF("linear", prior_variance=1.0).fit(numbers, (numbers > 0).astype(int)), tmp_path / "several.kfm")
    several = Served(tmp_path / "several.kfm", output=tmp_path / "more.kfm")
    assert 'write choice="multiple"' in several.refused("/setup", project="1", schema=ONE)
    assert "lacks labels that the model predicts: 0, 1" in several.refused("/setup", project="1", schema=SEVERAL)


def test_what_is_wrong_is_refused_in_one_line(names, tmp_path):
    served = Served(names, output=tmp_path / "out.kfm")
    config = PLAIN
    assert "lacks labels that the model predicts: CITY" in served.refused(
        "/setup", project="1.5", schema=config.replace("CITY", "PLACE")
    )
    boxes = '<View><RectangleLabels name="box" toName="i"><Label value="a"/></RectangleLabels></View>'
    assert "has <RectangleLabels name='box'>, and this model answers <Labels>" in served.refused(
        "/setup", project="1.5", schema=boxes
    )
    assert "is no XML" in served.refused("/setup", project="1.5", schema="<View>")
    assert "declares entities" in served.refused("/setup", project="1.5", schema="<!DOCTYPE a []><View/>")
    assert "the request has no 'schema'" in served.refused("/setup", project="1.5")
    assert "does not take the <TimeSeries>" in served.refused("/setup", project="1.5", schema=SERIES)
    assert 'valueType="url"' in served.refused(
        "/setup", project="1.5", schema=config.replace("<Text ", '<Text valueType="url" ')
    )
    assert "task 0 has no 'text'" in served.refused("/predict", tasks=[{"id": 0, "data": {}}], label_config=config)
    assert "must be a text" in served.refused("/predict", tasks=[{"id": 0, "data": {"text": 3}}], label_config=config)
    strange = submitted(0, spans=[(0, 3, "ORG")], config=config)
    assert "the label 'ORG' is not among those of <Labels name='label'>" in served.refused("/webhook", **strange)
    assert served.backend.annotations.latest() == []
    served.ask("/webhook", 201, **submitted(0, config=config))
    assert "start another backend for project 2" in served.refused("/webhook", **submitted(0, config=config, project=2))
    served.backend.wait()
    assert "--train FILE fits the model to its data" in served.backend.problem  # named features cannot go on
    assert served.ask("/job_status")["job_status"] == "failed"
    assert served.client.post("/predict", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert served.client.post("/predict", content=b"{}").status_code == 415
    assert served.client.get("/health").json()["status"] == "UP"
    assert served.client.get("/health", headers={"host": "evil.example"}).status_code == 403


def test_other_machines_need_a_password(names, tmp_path):
    backend = Backend(names, tmp_path / "out.kfm", say=lambda line: None)
    with pytest.raises(ValueError, match=r"--host 0\.0\.0\.0 lets other machines in"):
        StudioServer(backend, "0.0.0.0")
    client = TestClient(make_app(backend, ("studio", "secret")), base_url="http://backend.example")
    assert client.get("/health").status_code == 401
    assert client.get("/health", auth=("studio", "guess")).status_code == 401
    assert client.get("/health", auth=("studio", "secret")).status_code == 200


def test_models_without_an_answer_are_refused(tmp_path):
    graphs = [(np.random.default_rng(0).normal(size=(3, 2)), [[0, 1], [1, 2]])] * 6
    save(GraphCRF("linear", prior_variance=1.0).fit(graphs, [[0, 1, 0]] * 6), tmp_path / "graphs.kfm")
    with pytest.raises(ValueError, match="holds a GraphCRF"):
        Backend(tmp_path / "graphs.kfm", tmp_path / "out.kfm")


def test_a_file_of_annotations_is_read_to_its_last_whole_line(names, tmp_path):
    served = Served(names, output=tmp_path / "out.kfm", every=0)
    served.ask("/webhook", 201, **submitted(0, config=PLAIN))
    path = served.backend.annotations.path
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"task": "1", "da')
    assert len(Served(names, output=tmp_path / "out.kfm").backend.annotations) == 1
    assert path.read_bytes() == whole
    path.write_bytes(whole + b"nonsense\n")
    with pytest.raises(AnnotationsError, match="line 3: this is no annotation"):
        Served(names, output=tmp_path / "out.kfm")


def test_labels_have_the_names_of_their_aliases():
    control = find_control(TEXT, ("Labels",))
    assert control.labels == {"person": "PER", "CITY": "CITY"}
    mapped = find_control(TEXT.replace('value="CITY"', 'value="CITY" predicted_values="town, city"'), ("Labels",))
    assert mapped.labels == {"person": "PER", "town": "CITY", "city": "CITY"}
    assert mapped.names == {"PER": "person", "CITY": "town"}
    with pytest.raises(ConfigurationError, match="no tag of the name 'other'"):
        find_control(TEXT, ("Labels",), "other")


def test_the_server_answers_over_http(names, tmp_path):
    import urllib.request

    server = StudioServer(Backend(names, tmp_path / "out.kfm", say=lambda line: None), port=0).start()
    with urllib.request.urlopen(f"{server.address}/health") as answer:
        assert json.load(answer)["status"] == "UP"
    server.stop()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "--label-studio is the one there is"),
        (("--label-studio", "--train", "x", "--from-scratch"), "--train and --from-scratch exclude each other"),
        (("--label-studio",), "does not exist"),
        (("--label-studio", "--user", "studio"), "KERNELFIELDS_PASSWORD"),
    ],
)
def test_the_command_refuses_in_one_line(arguments, line, tmp_path, monkeypatch):
    monkeypatch.delenv("KERNELFIELDS_PASSWORD", raising=False)
    refused = CliRunner().invoke(app, ["serve", str(tmp_path / "none.kfm"), *arguments])
    assert refused.exit_code == 2
    (said,) = refused.stderr.splitlines()
    assert line in said
    assert not list(tmp_path.iterdir())
