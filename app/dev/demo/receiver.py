"""The user's chat of the demo: a real HTTP server that shows whatever reaches it, as often as it does.

Checks signatures after Standard Webhooks with nothing but the standard library, remembers no key, and
writes each request to `chat.jsonl` before it answers. Ends when its stdin does.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

SIGNED_PATH = "/chat"
UNSIGNED_PATH = "/unsigned"
SECRET_FILE = "chat.secret"  # noqa: S105 - a file's name
HEARD_FILE = "chat.jsonl"

_BODY_BYTES_MAX = 1 << 20
_READ_SECONDS_MAX = 30.0
_AGE_SECONDS_MAX = 300.0

Signature = Literal["valid", "wrong", "none"]


def judge(
    *, message_id: str, timestamp: str, signatures: str, body: bytes, secret: str
) -> Signature:
    """What the signature headers of one request are worth; empty ones are absent."""
    if not signatures:
        return "none"
    key = base64.b64decode(secret.strip().removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.".encode() + body
    right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    equal = [hmac.compare_digest(right.encode(), given.encode()) for given in signatures.split()]
    # Only by its own clock can a receiver tell how old a signature is.
    now = time.time()  # noqa: TID251
    fresh = timestamp.isdecimal() and abs(now - int(timestamp)) <= _AGE_SECONDS_MAX
    return "valid" if any(equal) and fresh else "wrong"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.secret = (folder / SECRET_FILE).read_text(encoding="utf-8")
        self.heard = folder / HEARD_FILE
        self.writing = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _READ_SECONDS_MAX
    server: _Server

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _BODY_BYTES_MAX:
            self.close_connection = True
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        body = self.rfile.read(int(length))
        signature = judge(
            message_id=self.headers.get("webhook-id", ""),
            timestamp=self.headers.get("webhook-timestamp", ""),
            signatures=self.headers.get("webhook-signature", ""),
            body=body,
            secret=self.server.secret,
        )
        trusted = signature == "valid" or self.path == UNSIGNED_PATH
        status = HTTPStatus.NO_CONTENT if trusted else HTTPStatus.UNAUTHORIZED
        self._write(body, signature=signature, status=status)
        self._answer(status)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: all that was heard is in the file."""

    def _write(self, body: bytes, *, signature: Signature, status: HTTPStatus) -> None:
        text = body.decode(errors="replace")
        with contextlib.suppress(ValueError, TypeError, KeyError):
            text = str(json.loads(text)["text"])
        line = {
            "at": time.monotonic(),
            "path": self.path,
            "status": int(status),
            "key": self.headers.get("webhook-id"),
            "idempotency_key": self.headers.get("Idempotency-Key"),
            "signature": signature,
            "text": text,
        }
        with self.server.writing, self.server.heard.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _answer(self, status: HTTPStatus) -> None:
        self.send_response(status)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", "0")
        self.end_headers()


def main() -> None:
    """Serve until stdin ends; the first line of stdout is the URL."""
    with _Server(Path(sys.argv[1])) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
