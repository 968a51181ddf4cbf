"""Messenger: messages, buttons, reactions, echoes, what another app says for a page, and the handshake."""

import json

from tests.providers.cases import Sample
from tests.providers.meta import case_of, expected, key_of, posted, told

READ = told(read={"watermark": 1796040000000})

CASES = (
    case_of(
        "page",
        Sample(
            name="while-another-app-speaks-for-the-page",
            body=posted("page", standby=[told(message={"mid": "m_6", "text": "hello?"})]),
            items=(expected("m_6", "standby.message", text="hello?"),),
        ),
        Sample(
            name="it-was-read",
            body=posted("page", messaging=[READ]),
            items=(expected(key_of(READ), "read", body=json.dumps(READ).encode()),),
        ),
    ),
)
