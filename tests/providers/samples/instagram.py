"""Instagram: messages, what is taken back, echoes, comments, and the handshake."""

import json
from typing import Any

from tests.providers.cases import Expected, Sample
from tests.providers.meta import case_of, expected, key_of, posted, told

TAKEN_BACK = told(message={"mid": "m_1", "is_deleted": True})
COMMENT: dict[str, Any] = {
    "field": "comments",
    "value": {"id": "C1", "from": {"id": "U1", "username": "ann"}, "text": "how much?"},
}
OWN_COMMENT = {
    "field": "comments",
    "value": {"id": "C3", "from": {"id": "P1"}, "text": "30 euros"},
}

CASES = (
    case_of(
        "instagram",
        Sample(
            name="what-is-taken-back-is-not-what-was-said",
            body=posted("instagram", messaging=[TAKEN_BACK]),
            items=(expected(key_of(TAKEN_BACK), "message.deleted"),),
        ),
        Sample(
            name="a-comment",
            body=posted("instagram", changes=[COMMENT]),
            items=(
                Expected(
                    keys=("comments:C1",),
                    event="comments",
                    text="how much?",
                    sender="U1",
                    body=json.dumps(COMMENT).encode(),
                ),
            ),
        ),
        Sample(
            name="a-comment-that-stands-in-its-entry",
            body=posted("instagram", field="comments", value={**COMMENT["value"], "id": "C2"}),
            items=(
                Expected(keys=("comments:C2",), event="comments", text="how much?", sender="U1"),
            ),
        ),
        Sample(
            name="our-own-comment",
            body=posted("instagram", changes=[OWN_COMMENT]),
            items=(
                Expected(
                    keys=("comments:C3",),
                    event="comments",
                    text="30 euros",
                    sender="P1",
                    is_echo=True,
                ),
            ),
        ),
    ),
)
