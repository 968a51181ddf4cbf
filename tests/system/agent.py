"""An agent as a process of its own, that needs HTTP and JSON, and nothing of this project.

The first line of stdin is its task, as JSON: `name`, `urls`, `key`, `queue`, and if wished `lease_seconds`,
`messages` (a set), `wait_seconds`, `destination`, `stop` (wait for orders after each claim). Orders are words, one a
line: `renew`, `seal`, `cut` (seal, and leave before the answer), `release`, `next`. What happens is told as JSON lines.
An attempt says something that no other attempt says, as a model asked again does.
"""

import http.client
import json
import secrets
import socket
import sys
import time
from typing import Any
from urllib.parse import urlsplit

CALL_SECONDS_MAX = 30.0
TRIES_MAX = 2000
PAUSE_SECONDS = 0.05

Json = dict[str, Any]


class Agent:
    """Claims and seals for ever, or as it is ordered."""

    def __init__(self, task: Json) -> None:
        self.task = task
        self.turn: Json = {}
        self.messages: list[Json] = []

    def run(self) -> None:
        """Work until killed."""
        while True:
            self.claim()
            if self.task.get("stop"):
                self.obey()
            else:
                self.tell("sealed", *self.call(self.path("seal"), self.set()))

    def claim(self) -> None:
        """Wait for a turn, and draft what to say."""
        wish = {
            "queue": self.task["queue"],
            "agent": self.task["name"],
            "wait_seconds": self.task.get("wait_seconds", 10),
            "lease_seconds": self.task.get("lease_seconds", 20),
        }
        while True:
            status, answer = self.call("/v1/turns/claim", wish)
            if status != 200:
                self.tell("refused", status, answer)
                time.sleep(PAUSE_SECONDS)
            elif answer["turns"]:
                break
        self.turn = answer["turns"][0]
        said = {"turn": self.turn["id"], "attempt": self.turn["attempt"]}
        self.messages = [
            {
                "destination": self.task.get("destination", "crm"),
                "payload": {**said, "position": n, "nonce": secrets.token_hex(8)},
            }
            for n in range(self.task.get("messages", 2))
        ]
        self.tell("claimed", status, self.turn)

    def obey(self) -> None:
        """Do what is ordered, until told to go on."""
        while True:
            match sys.stdin.readline().strip():
                case "renew":
                    token = {"lease_token": self.turn["lease_token"]}
                    self.tell("renewed", *self.call(self.path("renew"), token))
                case "seal":
                    self.tell("sealed", *self.call(self.path("seal"), self.set()))
                case "release":
                    body = {"lease_token": self.turn["lease_token"], "reason": "ordered"}
                    self.tell("released", *self.call(self.path("release"), body))
                case "cut":
                    self.send_and_leave(self.path("seal"), self.set())
                    self.tell("cut", 0, {})
                case "next":
                    return
                case _:
                    sys.exit(0)

    def path(self, verb: str) -> str:
        """Where a verb of its turn is."""
        return f"/v1/turns/{self.turn['id']}/{verb}"

    def set(self) -> Json:
        """The body of its seal: the same each time for one claim."""
        return {"lease_token": self.turn["lease_token"], "messages": self.messages}

    def call(self, path: str, body: Json) -> tuple[int, Json]:
        """POST until there is an answer that is not about the service's health, at one replica or another."""
        urls = self.task["urls"]
        for tried in range(TRIES_MAX):
            host = urlsplit(urls[tried % len(urls)]).netloc
            connection = http.client.HTTPConnection(host, timeout=CALL_SECONDS_MAX)
            try:
                connection.request("POST", path, json.dumps(body), self.headers())
                answer = connection.getresponse()
                content = answer.read()
                if answer.status != 503:
                    return answer.status, json.loads(content)
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(PAUSE_SECONDS)
        sys.exit("the service did not come back")

    def send_and_leave(self, path: str, body: Json) -> None:
        """POST, and close the connection with the answer unread."""
        content = json.dumps(body).encode()
        target = urlsplit(self.task["urls"][0])
        headers = {**self.headers(), "Host": target.netloc, "Content-Length": str(len(content))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        address = target.hostname or "", target.port or 80
        with socket.create_connection(address, timeout=CALL_SECONDS_MAX) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + content)
            # Who leaves before the request was read may not be served at all: this one leaves when it was.
            connection.recv(1, socket.MSG_PEEK)

    def headers(self) -> dict[str, str]:
        """What every call carries."""
        key = self.task["key"]
        return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def tell(self, what: str, status: int, answer: Json) -> None:
        """Say on stdout what happened."""
        print(json.dumps({"what": what, "status": status, "answer": answer}), flush=True)


if __name__ == "__main__":
    Agent(json.loads(sys.stdin.readline())).run()
