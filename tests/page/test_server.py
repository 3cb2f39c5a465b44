"""The server of the page: every defence, and ten thousand requests of nonsense."""

import errno
import json
import socket
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from sentences import city_model, sentences

pytest.importorskip("starlette", reason="the extra page is not installed")
pytest.importorskip("httpx", reason="Starlette's test client needs httpx")

from starlette.testclient import TestClient

from kernelfields.page import LabellingSession, serve
from kernelfields.page.server import TOKEN_HEADER, Server, make_app

TOKEN, PORT = "secret-token", 8123


@pytest.fixture(scope="module")
def model():
    return city_model()


@pytest.fixture
def session(model):
    X, _ = sentences(8, seed=1)
    return LabellingSession(X, None, model, words=X)


@pytest.fixture
def client(session):
    return TestClient(
        make_app(session, TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}", headers={TOKEN_HEADER: TOKEN}
    )


def test_questions_are_answered(client):
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    state = client.post("/api/state", json={}).json()
    assert state["items"] == 8
    item = client.post("/api/item", json={"item": 0}).json()
    changed = client.post("/api/change", json={"item": 0, "version": 0, "changes": [[0, ["O"]]]}).json()
    assert changed["positions"][0]["from"] == "fixed"
    assert client.post("/api/change", json={"item": 0, "version": 0, "changes": [[0, ["O"]]]}).status_code == 409
    assert client.post("/api/undo", json={}).json()["positions"] == item["positions"]
    assert client.post("/api/best", json={"item": 0}).json()[0]["p"] <= 1
    assert client.post("/api/explain", json={"item": 0, "position": 0}).json()["position"] == 0
    assert len(client.post("/api/queue", json={"order": "doubtful"}).json()) == 8


def test_an_action_that_cannot_be_kept_is_refused_in_words(model, tmp_path, monkeypatch):
    X, _ = sentences(3, seed=1)
    session = LabellingSession(X, None, model, words=X, journal=tmp_path / "journal")
    client = TestClient(
        make_app(session, TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}", headers={TOKEN_HEADER: TOKEN}
    )
    before = client.post("/api/item", json={"item": 0}).json()

    def full(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("kernelfields.page.journal.os.write", full)
        answer = client.post("/api/change", json={"item": 0, "version": 0, "changes": [[0, ["O"]]]})
    assert answer.status_code == 400
    assert "this was not kept and does not count: journal cannot be written (No space left" in answer.json()["error"]
    assert client.post("/api/item", json={"item": 0}).json() == before
    session.close()


def test_without_the_token_nothing_is_answered(client):
    assert client.get("/").status_code == 403
    assert client.get("/", params={"token": "guess"}).status_code == 403
    for name in ("state", "item", "change", "undo", "best", "explain", "queue", "refit", "save"):
        assert client.post(f"/api/{name}", json={"item": 0}, headers={TOKEN_HEADER: "guess"}).status_code == 403
    client.headers.pop(TOKEN_HEADER)
    assert client.post("/api/state", json={}, params={"token": TOKEN}).status_code == 403  # an address is no header


def test_other_hosts_and_origins_are_refused(client):
    for host in ("evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1"):
        assert client.post("/api/state", json={}, headers={"host": host}).status_code == 403
        assert client.get("/", params={"token": TOKEN}, headers={"host": host}).status_code == 403
    assert client.post("/api/state", json={}, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/api/state", json={}, headers={"origin": f"http://127.0.0.1:{PORT}"}).status_code == 200


def test_answers_load_nothing_from_elsewhere_and_allow_no_frames(client):
    for answer in (
        client.get("/", params={"token": TOKEN}),
        client.post("/api/state", json={}),
        client.get("/page.js"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
    page = client.get("/", params={"token": TOKEN}).text
    assert "<script>" not in page
    assert "style=" not in page
    assert "innerHTML" not in client.get("/page.js").text


def test_no_path_of_a_request_is_opened(client):
    for path in (
        "/../pyproject.toml",
        "/static/page.html",
        "/page.html",
        "/%2e%2e/server.py",
        "/etc/passwd",
        "/api/../page.js/x",
    ):
        assert client.get(path, params={"token": TOKEN}).status_code in (404, 405)


def test_large_and_broken_requests_are_one_line(client):
    assert client.post("/api/state", content=b"{" * 10, headers={"content-type": "application/json"}).status_code == 400
    assert client.post("/api/state", content=b"[]", headers={"content-type": "application/json"}).status_code == 400
    assert client.post("/api/state", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    large = json.dumps({"x": "y" * 1_100_000}).encode()
    assert client.post("/api/state", content=large, headers={"content-type": "application/json"}).status_code == 413
    deep = b'{"item": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert client.post("/api/item", content=deep, headers={"content-type": "application/json"}).status_code == 400


@pytest.mark.slow
def test_ten_thousand_requests_of_nonsense(client, session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    names = ["state", "item", "change", "undo", "best", "explain", "queue", "save", "nothing"]
    values = [
        None,
        -1,
        0,
        3,
        10**30,
        1.5,
        "0",
        "../x",
        [],
        [[0, ["O"]]],
        [[0, None]],
        {},
        True,
        [[1, ["<b>"]]],
        "é\u0000",
    ]
    keys = ["item", "version", "changes", "position", "order", "first", "x"]
    codes = set()
    for _ in range(10_000):
        chosen = random.choice(len(keys), size=random.integers(0, 5), replace=False)
        body = {keys[k]: values[random.integers(len(values))] for k in chosen}
        if random.random() < 0.3:
            body |= {"item": int(random.integers(8)), "version": session.versions[0]}
        answer = client.post(f"/api/{names[random.integers(len(names))]}", json=body)
        codes.add(answer.status_code)
        if answer.status_code != 200:
            assert answer.status_code in (400, 404, 409)
    assert codes == {200, 400, 404, 409}
    assert not list(tmp_path.iterdir())
    assert client.post("/api/state", json={}).json()["items"] == 8


def test_serve_runs_in_the_background_and_a_taken_port_is_named(model):
    pytest.importorskip("uvicorn")
    import urllib.request

    X, _ = sentences(3)
    server = serve(model, X, words=X, browser=False)
    try:
        assert urllib.request.urlopen(server.address).status == 200
        with pytest.raises(OSError, match=f"port {server.port} of 127.0.0.1 cannot be used"):
            Server(LabellingSession(X, words=X), server.port)
    finally:
        server.stop()
    with pytest.raises(ValueError, match="holds no items"):
        serve(model, [])
    with socket.socket() as free:
        assert free.connect_ex(("127.0.0.1", server.port)) != 0


STALLED = "POST /api/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}: {token}\r\n"
STALLED += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"


def test_the_end_does_not_wait_for_open_requests(session, capfd):
    server = Server(session).start()
    with socket.create_connection(("127.0.0.1", server.port)) as stalled:
        stalled.sendall(STALLED.format(port=server.port, header=TOKEN_HEADER, token=server.token).encode())
        stalled.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stalled.recv(1)
        server.stop()
    assert "Traceback" not in capfd.readouterr().err


def test_connections_that_are_too_many_close_the_oldest(session, capfd):
    server = Server(session).start()
    asked = STALLED.replace("1000", "2").format(port=server.port, header=TOKEN_HEADER, token=server.token) + "}"
    with ExitStack() as opened:
        first, *_, last = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20)) for _ in range(150)
        ]
        last.sendall(asked.encode())
        assert last.recv(100).startswith(b"HTTP/1.1 200")
        with suppress(ConnectionError):  # of a closed connection nothing is read, or that is an error
            assert first.recv(1) == b""
    server.stop()
    assert not capfd.readouterr().err
