"""What an independent client would have sent to GitHub: same method, path, headers and fields as ours."""

import json

import aiohttp
from gidgethub.aiohttp import GitHubAPI

from tests.channels.conformance.fakes import answer, http_fake
from tests.channels.conformance.sample import CANARY, load
from tests.channels.test_judges import ours


async def test_gidgethub_sends_the_same() -> None:
    good = answer(201, {"id": 4242}, content_type="application/json; charset=utf-8")
    async with http_fake(load("github").good) as fake:
        mine = await ours("github", fake)
    async with http_fake(good) as fake, aiohttp.ClientSession() as session:
        client = GitHubAPI(
            session, "helper", oauth_token=CANARY, base_url=f"http://127.0.0.1:{fake.port}"
        )
        said = json.loads(mine.body)
        await client.post("/repos/acme/tool.py/issues/12/comments", data=said)
        theirs = fake.requests[-1]
    assert (mine.method, mine.path) == (theirs.method, theirs.path)
    assert said == json.loads(theirs.body)
    assert mine.headers["authorization"].split()[1] == theirs.headers["authorization"].split()[1]
    kinds = [one.headers["content-type"].replace(" ", "").lower() for one in (mine, theirs)]
    assert kinds[0] == kinds[1] == "application/json;charset=utf-8"
