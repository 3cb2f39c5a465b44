"""The server of the page: one process, for this machine only.

    serve(crf, X, y)                     in Python; prints the address with its token

Every request except those for the static script and style needs the token of the address, and a Host header with this
machine and port. A page of another origin has neither, and cannot send the header that changes need. No part of a
request is used as a path. Responses forbid framing, loading from other origins and inline scripts.

At most _MOST_CONNECTIONS connections are open; a further one closes the oldest. The end waits for open requests for
_PATIENCE seconds.

Raises OSError if the port is in use; ImportError with the name of the extra.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import BaseEstimator

from kernelfields.numerics.containers import count_rows
from kernelfields.page.changes import Conflict
from kernelfields.page.journal import JournalError
from kernelfields.page.session import LabellingSession

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
#: The most bytes of a request.
_MOST_BYTES = 1_000_000
#: The most open connections, of which browsers need six, and the seconds that the end waits for open requests.
_MOST_CONNECTIONS, _PATIENCE = 100, 2
_STATIC = Path(__file__).parent / "static"
_SCRIPTS = ("page", "server", "words", "panels", "timeline", "graph", "guidelines", "explain")
_FILES = {"page.css": "text/css", **{f"{name}.js": "text/javascript" for name in _SCRIPTS}}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TOKEN_HEADER = "X-Kernelfields-Token"


class RefusedRequest(Exception):
    """The server refuses a request, with a status and a message."""

    def __init__(self, status: int, line: str):
        super().__init__(line)
        self.status = status


def check_installed() -> None:
    """Raise ImportError with the name of the extra if the server is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError("the page needs Starlette and uvicorn: pip install 'kernelfields[page]'") from error


def make_app(labelling: LabellingSession, token: str, port: int) -> Starlette:
    """Return the ASGI application of the page."""
    check_installed()
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    def checked(request: Request, given: str | None) -> None:
        if request.headers.get("host", "") not in hosts:
            raise RefusedRequest(403, "this address is not that of the page")
        origin = request.headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            raise RefusedRequest(403, "requests of other pages are not answered")
        if given is None or not secrets.compare_digest(given.encode(), token.encode()):
            raise RefusedRequest(403, "the token is missing or wrong: open the address that was printed")

    def answer(status: int, content: object) -> Response:
        return JSONResponse(content, status, headers=_HEADERS)

    async def read_body(request: Request) -> dict[str, Any]:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise RefusedRequest(415, "requests are JSON")
        raw = b""
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > _MOST_BYTES:
                raise RefusedRequest(413, "the request is too large")
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            raise RefusedRequest(400, "the request is not JSON") from None
        if not isinstance(body, dict):
            raise RefusedRequest(400, "the request must be an object")
        return body

    def make_handler(ask: Callable[[dict[str, Any]], object]) -> Callable[[Request], Any]:
        """Return the HTTP handler of a function, with checks of the request."""

        async def handle(request: Request) -> Response:
            try:
                checked(request, request.headers.get(TOKEN_HEADER))
                return answer(200, await run_in_threadpool(ask, await read_body(request)))
            except RefusedRequest as refusal:
                return answer(refusal.status, {"error": str(refusal)})
            except Conflict as conflict:
                return answer(409, {"error": str(conflict)})
            except (ValueError, TypeError, OSError) as error:
                return answer(400, {"error": str(error)})
            except (ClientDisconnect, asyncio.CancelledError):  # nobody hears this: the page, or its reader, has gone
                return answer(503, {"error": "the page has ended"})

        return handle

    async def front(request: Request) -> Response:
        try:
            checked(request, request.query_params.get("token"))
        except RefusedRequest as refusal:
            return Response(str(refusal), refusal.status, headers=_HEADERS, media_type="text/plain")
        return Response((_STATIC / "page.html").read_bytes(), headers=_HEADERS, media_type="text/html")

    def static(name: str, kind: str) -> Callable[[Request], Any]:
        async def file(request: Request) -> Response:
            return Response((_STATIC / name).read_bytes(), headers=_HEADERS, media_type=kind)

        return file

    def number(body: dict[str, Any], name: str, otherwise: int) -> int:
        value = body.get(name, otherwise)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} must be a whole number")
        return value

    def bind_arguments(method: Callable[..., object], *names: str) -> Callable[[dict[str, Any]], object]:
        """Return a function of the request body that calls a method with the named entries."""
        return lambda body: method(*(number(body, name, 0) if name == "first" else body.get(name) for name in names))

    place = ("item", "version", "begin", "end")
    questions: dict[str, Callable[[dict[str, Any]], object]] = {
        "state": bind_arguments(labelling.state),
        "item": bind_arguments(labelling.show, "item", "first"),
        "change": bind_arguments(labelling.change, "item", "version", "changes", "first"),
        "mark": bind_arguments(labelling.mark, *place, "kind", "first"),
        "split": bind_arguments(labelling.split, "item", "version", "places", "first"),
        "accept": bind_arguments(labelling.accept, *place, "first"),
        "done": bind_arguments(labelling.done, "item", "version", "first"),
        "undo": bind_arguments(labelling.undo, "first"),
        "redo": bind_arguments(labelling.redo, "first"),
        "repeats": bind_arguments(labelling.repeats, "item", "begin", "end", "kind", "apply"),
        "flag": bind_arguments(labelling.flag, "item", "note"),
        "places": bind_arguments(labelling.places, "kind"),
        "best": bind_arguments(labelling.best, "item"),
        "explain": bind_arguments(labelling.explain, "item", "position"),
        "queue": lambda body: labelling.queue(
            str(body.get("order", "given")),
            number(body, "item", 0),
            text=str(body.get("text", "")),
            label=body.get("label"),
            part=str(body.get("part", "all")),
        ),
        "guidelines": lambda _: {"text": labelling.guidelines},
        "refit": lambda body: {"status": labelling.refit()},
        "check": lambda body: {"status": labelling.check()},
        "save": lambda body: {"status": labelling.save()},
    }
    routes = [Route("/", front)]
    routes += [Route(f"/{name}", static(name, kind)) for name, kind in _FILES.items()]
    routes += [Route(f"/api/{name}", make_handler(ask), methods=["POST"]) for name, ask in questions.items()]
    return Starlette(routes=routes)


class Server:
    """A running server of the page; ``address`` is for the browser, :meth:`stop` ends it."""

    def __init__(self, labelling: LabellingSession, port: int = 0, *, log: bool = False):
        token = secrets.token_urlsafe(24)
        self.labelling, self._socket = labelling, bind_socket(port)
        self.port = int(self._socket.getsockname()[1])
        app = make_app(labelling, token, self.port)
        import uvicorn

        self.token, self.address = token, f"http://{HOST}:{self.port}/?token={token}"
        settings = {"log_level": "info" if log else "error", "access_log": log, "http": _make_limited_protocol()}
        config = uvicorn.Config(
            app, lifespan="off", timeout_graceful_shutdown=_PATIENCE, backlog=_MOST_CONNECTIONS, **settings
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until the process is interrupted."""
        self._server.run(sockets=[self._socket])

    def start(self) -> Server:
        """Serve in a background thread."""
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)
        return self

    def stop(self) -> None:
        """Stop the server, and release the file and its journal."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        self.labelling.close()


def _make_limited_protocol() -> type[asyncio.Protocol]:
    """Return an HTTP protocol class that closes its oldest connection above a limit."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class FewConnections(H11Protocol):
        opened: ClassVar[dict[asyncio.Protocol, asyncio.Transport]] = {}

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.opened[self] = transport
            if len(self.opened) > _MOST_CONNECTIONS:
                self.opened.pop(next(iter(self.opened))).abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self.opened.pop(self, None)
            super().connection_lost(exc)

    return FewConnections


def serve(
    estimator: BaseEstimator | None = None,
    X: Sequence | None = None,
    y: Sequence | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    **settings: Any,
) -> Server:
    """Open the page for some items, with a server in the background.

    It needs ``pip install "kernelfields[page]"``. The page is for this machine alone: its address has a token, and it
    loads nothing from elsewhere. docs/page.md shows it.

    Parameters
    ----------
    estimator : estimator or Pipeline, optional
        An estimator of labels, fitted or not; by default a ChainCRF with defaults.
    X : list of arrays, or any other form that the estimator takes
        The sequences, graphs, instances or single inputs.
    y : list of lists, optional
        What is known of their labels; nothing by default.
    port : int, default 0
        The port; 0 for one that is free.
    browser : bool, default True
        Whether the browser is opened.
    **settings : object
        Parameters of :class:`LabellingSession`.

    Returns
    -------
    Server
        ``server.address`` is the address, ``server.labelling`` the LabellingSession, whose ``labels()`` are the labels,
        and ``server.stop()`` ends it.

    Raises
    ------
    ValueError
        If there are no items.
    OSError
        If the port is taken.
    ImportError
        If Starlette or uvicorn is missing.

    See Also
    --------
    LabellingSession : Labels items without a page.

    Examples
    --------
    >>> from kernelfields.page import serve
    >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
    >>> server = serve(None, words, words=words, classes=["city"], scheme="spans", browser=False)
    >>> server.address.partition("?")[0]
    'http://127.0.0.1:.../'
    >>> server.stop()
    """
    if X is None or not count_rows(X):
        raise ValueError("X holds no items to label")
    check_installed()
    labelling = LabellingSession(X, y, estimator, **settings)
    try:
        server = Server(labelling, port).start()
    except OSError:  # the port is taken
        labelling.close()
        raise
    if browser:
        webbrowser.open(server.address)
    return server


def bind_socket(port: int, host: str = HOST) -> socket.socket:
    """Return a listening socket on a port of this machine; OSError if the port is in use."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(128)  # so that a browser which is quicker than the server waits
    except OSError as error:
        bound.close()
        raise OSError(f"port {port} of {host} cannot be used ({error.strerror}): name another by --port") from error
    return bound


__all__ = ["JournalError", "Server", "make_app", "serve"]
