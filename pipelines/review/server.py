"""The local server of a review: the page, the run's own pictures, and verdicts.

It listens on 127.0.0.1 alone. Every address begins with a random token, so other users of the machine see nothing; the
headers Host and Origin are checked, so other sites in the same browser reach nothing, whatever name they give the
address. Files are never looked up by a name from a request.
"""

import hmac
import json
import re
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from socketserver import TCPServer
from typing import Any

from lapsvm.errors import DataError, LapsvmError, OptionError, WriteError
from lapsvm.files import NOT_PARSED

from ..shards.windows import UnusableError
from .assembly import SCRIPTS, page_file, served_page
from .new_pictures import NewPictures
from .session import ReviewSession

HOST = "127.0.0.1"
LARGEST_BODY = 2**16
TIMEOUT = 30.0
NOT_UNDERSTOOD = "This request is not understood."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_NUMBER = r"(\d{1,9})"


class ReviewServer(ThreadingHTTPServer):
    """The server of one review.

    Parameters
    ----------
    session : ReviewSession or NewPictures
    port : int, default 0
        0: a free one.

    Raises
    ------
    OptionError
        If the port is taken or may not be used.
    """

    daemon_threads = True

    def __init__(self, session: ReviewSession | NewPictures, port: int = 0) -> None:
        self.session, self.token = session, token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise OptionError(f"option --port must be a free port, got {port}: {error.strerror}.") from None
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def server_bind(self) -> None:
        """Bind without asking the system for the host's name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that ended a connection."""


class _Refused(Exception):  # noqa: N818 - an answer, not an error of the program
    """A request that gets no more than a status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: ReviewServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "lapsvm", ""
    timeout = TIMEOUT

    def do_GET(self) -> None:
        """Answer with the page, its files, or what it asks."""
        self._answered(self._get)

    def do_POST(self) -> None:
        """Save a verdict."""
        self._answered(self._post)

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - the name of the base class
        """Write no log: addresses hold the token."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer a request that the base class does not understand as all others are: with our headers, no echo."""
        self.close_connection = True
        self._send(HTTPStatus(code), NOT_UNDERSTOOD.encode(), "text/plain; charset=utf-8")

    def _answered(self, answer: Callable[[str], tuple[bytes, str]]) -> None:
        """Send the answer to the address below the token, or the reason of its refusal."""
        try:
            self._check_origin()
            content, kind = answer(self._below_token())
            self._send(HTTPStatus.OK, content, kind)
        except _Refused as refused:
            self.close_connection = True  # a body may be unread
            self._send(refused.status, refused.sentence.encode(), "text/plain; charset=utf-8")

    def _check_origin(self) -> None:
        """Refuse requests to other names of this address, by pages of other origins, or answered without headers."""
        if self.request_version == "HTTP/0.9":
            raise _Refused(HTTPStatus.BAD_REQUEST, NOT_UNDERSTOOD)
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            raise _Refused(HTTPStatus.FORBIDDEN, "This server has another name.")
        origins = self.headers.get_all("Origin", [])
        if origins and origins not in [[f"http://{host}"] for host in self.server.hosts]:
            raise _Refused(HTTPStatus.FORBIDDEN, "Pages of other origins get nothing.")
        if self.command == "POST" and not origins:
            raise _Refused(HTTPStatus.FORBIDDEN, "Only the page may save.")

    def _below_token(self) -> str:
        """Return the path below the token; a wrong token is refused as any unknown address is."""
        _, _, below = self.path.partition("/")
        token, slash, path = below.partition("/")
        if not (slash and hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())):
            raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.")
        return path

    def _get(self, path: str) -> tuple[bytes, str]:
        if path == "":
            return served_page(decides=self.server.session.decides), _TYPES["html"]
        if path in ("review.css", *SCRIPTS):
            return page_file(path).encode(), _TYPES[path.rpartition(".")[2]]
        self._check_same_site()
        session = self.server.session
        routes: dict[str, Callable[..., Any]] = {
            "state": session.overview,
            f"queue/{_NUMBER}": session.queue,
            f"item/{_NUMBER}/{_NUMBER}": session.item,
            f"picture/{_NUMBER}": session.image,
        }
        for pattern, function in routes.items():
            if match := re.fullmatch(pattern, path, re.ASCII):
                found = _called(function, *map(int, match.groups()))
                return (found, "image/jpeg") if isinstance(found, bytes) else _json(found)
        raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.")

    def _post(self, path: str) -> tuple[bytes, str]:
        if path != "verdict":
            raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.")
        self._check_same_site()
        if self.headers.get_content_type() != "application/json":
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A verdict must be JSON.")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,9}", length, re.ASCII) or int(length) > LARGEST_BODY:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A verdict must have at most {LARGEST_BODY} bytes.")
        try:
            entry = json.loads(self.rfile.read(int(length)))
        except NOT_PARSED:
            raise _Refused(HTTPStatus.BAD_REQUEST, "A verdict must be JSON.") from None
        return _json(_called(self.server.session.record, entry))

    def _check_same_site(self) -> None:
        """Refuse requests that another site embeds; browsers that send no such header send Origin or nothing of use."""
        if self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise _Refused(HTTPStatus.FORBIDDEN, "Pages of other origins get nothing.")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in (HEADERS | {"Content-Type": kind, "Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the answer of a session's function; its expected failures are refusals."""
    try:
        return function(*arguments)
    except LookupError:
        raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.") from None
    except UnusableError as error:
        raise _Refused(HTTPStatus.CONFLICT, str(error)) from None
    except WriteError as error:
        raise _Refused(HTTPStatus.INSUFFICIENT_STORAGE, str(error)) from None
    except DataError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from None
    except LapsvmError as error:
        raise _Refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from None


def _json(value: Any) -> tuple[bytes, str]:
    return json.dumps(value).encode(), "application/json"
