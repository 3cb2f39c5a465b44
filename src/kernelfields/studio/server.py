"""The HTTP interface of a machine learning backend for Label Studio.

    GET  /health, /            {"status": "UP", "model_class": ...}
    POST /setup                {"project", "schema"} -> {"model_version"}; the configuration is checked
    POST /predict              {"tasks", "label_config"} -> {"results": [{"result", "score", "model_version"}]}
    POST /webhook              {"action", "project", "task", "annotation"}: annotations, and START_TRAINING
    POST /train                {"annotations": [tasks with annotations]}, sent by older versions
    GET  /versions, POST /job_status, GET /is_training, POST /delete, GET /metrics

Bodies are JSON; an invalid one gets {"error": one line} with status 400. No part of a request is used as a path or
address, and the access token of Label Studio is not read. Without a password the server answers only requests whose
Host header names this machine.

Raises OSError if the port is in use; ImportError with the name of the extra.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from kernelfields.page.server import HOST, RefusedRequest, bind_socket, check_installed
from kernelfields.studio.annotations import Annotation
from kernelfields.studio.backend import Backend
from kernelfields.studio.tasks import TaskError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

#: The port that Label Studio's own examples use.
PORT = 9090
_MOST_BYTES = 100_000_000
_LOCAL = {HOST, "localhost", "[::1]"}
_SUBMITTED = {"ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED"}
_DELETED = {"ANNOTATION_DELETED", "ANNOTATIONS_DELETED"}
_PATIENCE = 2


def make_app(backend: Backend, login: tuple[str, str] | None = None) -> Starlette:
    """Return the ASGI application; ``login`` is the required name and password."""
    check_installed()
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def check(request: Request) -> None:
        if login is None:
            host = request.headers.get("host", "").rsplit(":", 1)[0]
            if host not in _LOCAL:
                raise RefusedRequest(
                    403, f"requests for {host!r:.60} are not answered without a password: start with --user"
                )
        elif not _is_login(request.headers.get("authorization", ""), login):
            raise RefusedRequest(401, "the name or the password is wrong")

    async def read_body(request: Request) -> dict[str, Any]:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise RefusedRequest(415, "requests are JSON")
        raw = b""
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > _MOST_BYTES:
                raise RefusedRequest(413, "the request is too large: send fewer tasks at once")
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            raise RefusedRequest(400, "the request is not JSON") from None
        if not isinstance(body, dict):
            raise RefusedRequest(400, "the request must be an object")
        return body

    def handle(ask: Callable[[dict[str, Any]], object], status: int = 200) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                check(request)
                body = await read_body(request) if request.method == "POST" else {}
                return JSONResponse(await run_in_threadpool(ask, body), status)
            except RefusedRequest as refusal:
                headers = {"WWW-Authenticate": 'Basic realm="kernelfields"'} if refusal.status == 401 else None
                return JSONResponse({"error": str(refusal)}, refusal.status, headers=headers)
            except (ValueError, TypeError, KeyError, OSError) as error:
                line = f"the request has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
                backend.say(f"refused: {line}")
                return JSONResponse({"error": line}, 400)

        return answer

    def health(_: dict[str, Any]) -> object:
        kind = "none yet" if backend.model is None else type(backend.model).__name__
        return {"status": "UP", "model_class": kind}

    def setup(body: dict[str, Any]) -> object:
        backend.reader(body["schema"])
        return {"model_version": backend.version}

    def predict(body: dict[str, Any]) -> object:
        tasks = body["tasks"]
        if not isinstance(tasks, list):
            raise TaskError(f"tasks must be a list, got {tasks!r:.40}")
        return {"results": backend.predict(tasks, body.get("label_config")), "model_version": backend.version}

    def webhook(body: dict[str, Any]) -> object:
        action, project = body["action"], body.get("project") or {}
        number, config = _project_id(project.get("id")), project.get("label_config")
        if action in _SUBMITTED:
            backend.submit(number, config, list(_read_annotations(body)))
        elif action in _DELETED:
            given = body.get("annotations", body.get("annotation"))
            backend.withdraw(number, [str(each["id"]) for each in _to_list(given)])
        elif action == "START_TRAINING":
            backend.reader(config)
            backend.fit()
        else:
            return {"status": "not a training event"}
        return {"status": "ok", "model_version": backend.version}

    def train(body: dict[str, Any]) -> object:
        tasks = _to_list(body.get("annotations", body.get("tasks")))
        own = [
            _read_annotation(task, each)
            for task in tasks
            for each in _to_list(task.get("annotations"))
            if _is_submitted(each)
        ]
        backend.submit(_project_id(body.get("project")), body.get("label_config"), own)
        backend.fit()
        return {"status": "ok", "job": "fit"}

    def job_status(_: dict[str, Any]) -> object:
        state = "running" if backend.is_fitting else "failed" if backend.problem else "finished"
        return {"job_status": state, "error": backend.problem, "model_version": backend.version}

    routes = [
        *(Route(path, handle(health), methods=["GET"]) for path in ("/", "/health")),
        Route("/setup", handle(setup), methods=["POST"]),
        Route("/predict", handle(predict), methods=["POST"]),
        Route("/webhook", handle(webhook, 201), methods=["POST"]),
        Route("/train", handle(train, 201), methods=["POST"]),
        Route("/job_status", handle(job_status), methods=["GET", "POST"]),
        Route("/is_training", handle(lambda _: {"is_training": backend.is_fitting}), methods=["GET"]),
        Route("/versions", handle(lambda _: {"versions": [backend.version]}), methods=["GET", "POST"]),
        *(Route(path, handle(lambda _: {}), methods=["GET", "POST"]) for path in ("/metrics", "/delete")),
    ]
    return Starlette(routes=routes)


def _is_login(header: str, login: tuple[str, str]) -> bool:
    """Whether an Authorization header contains the name and password."""
    kind, _, given = header.partition(" ")
    try:
        name = base64.b64decode(given, validate=True) if kind.lower() == "basic" else b""
    except binascii.Error:
        return False
    return secrets.compare_digest(name, ":".join(login).encode())


def _project_id(given: object) -> str:
    """Return the id of a project, without the time that some requests append."""
    if given in (None, "") or not isinstance(given, str | int):
        raise TaskError("the request does not say which project it is of")
    return str(given).partition(".")[0]


def _to_list(given: object) -> list[Mapping[str, Any]]:
    """Return a list of objects from one object or a list."""
    found: list[Any] = given if isinstance(given, list) else [given]
    if not all(isinstance(each, Mapping) for each in found):
        raise TaskError(f"expected objects, got {given!r:.60}")
    return found


def _read_annotations(body: Mapping[str, Any]) -> list[Annotation]:
    """Return the annotations of an event."""
    tasks, own = _to_list(body["task"]), _to_list(body["annotation"])
    if len(tasks) != len(own):
        tasks = tasks * len(own) if len(tasks) == 1 else tasks
    return [_read_annotation(task, each) for task, each in zip(tasks, own, strict=True) if _is_submitted(each)]


def _is_submitted(annotation: Mapping[str, Any]) -> bool:
    """Whether an annotation was submitted, not skipped."""
    return not annotation.get("was_cancelled")


def _read_annotation(task: Mapping[str, Any], own: Mapping[str, Any]) -> Annotation:
    """Return an annotation of a task."""
    data, result = task["data"], own["result"]
    if not isinstance(data, Mapping) or not isinstance(result, list) or not all(isinstance(r, Mapping) for r in result):
        raise TaskError(f"task {task.get('id')}: expected data and a list of results")
    return Annotation(str(task["id"]), data, str(own["id"]), result)


class StudioServer:
    """The running server of a backend at ``address``."""

    def __init__(self, backend: Backend, host: str = HOST, port: int = PORT, *, login: tuple[str, str] | None = None):
        if login is None and host not in _LOCAL:
            raise ValueError(f"--host {host} lets other machines in: name a --user, with KERNELFIELDS_PASSWORD set")
        app = make_app(backend, login)
        import uvicorn

        self.backend, self._socket = backend, bind_socket(port, host)
        self.port = int(self._socket.getsockname()[1])
        self.address = f"http://{host}:{self.port}"
        config = uvicorn.Config(app, lifespan="off", timeout_graceful_shutdown=_PATIENCE, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until the process is interrupted."""
        self._server.run(sockets=[self._socket])

    def start(self) -> StudioServer:
        """Serve in the background."""
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)
        return self

    def stop(self) -> None:
        """Stop the server after the running fit."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        self.backend.wait()
