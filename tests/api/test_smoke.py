import json
async def test_smoke(service):
    a = await service.accept("k1", conversation="c", metadata={"a": 1})
    print(a)
    assert a.status == 202, a
    t = await service.claim()
    print(t.json)
    (turn,) = t.json["turns"]
    r = await service.post(f"/v1/turns/{turn['id']}/renew", {"lease_token": turn["lease_token"]})
    print(r)
    s = await service.seal(turn, [{"destination": "loopback", "payload": {"x": 1}, "headers": {"x-tag": "a"}}])
    print(s)
    s = await service.seal(turn, [{"destination": "loopback", "payload": {"x": 1}, "headers": {"x-tag": "a"}}])
    print(s)
    for p in (f"/v1/turns/{turn['id']}", f"/v1/inbound/{a.json['id']}", f"/v1/turns/{turn['id']}/events", f"/v1/inbound/{a.json['id']}/payload", f"/v1/outbox/{s.json['messages'][0]['id']}", "/v1/loopback", "/livez", "/readyz", "/metrics", "/openapi.json", "/nope"):
        g = await service.get(p)
        print(p, g.status, g.headers, g.body[:1500])
    g = await service.call("DELETE", "/v1/inbound")
    print(g)
    g = await service.call("HEAD", "/v1/inbound/"+a.json["id"])
    print(g)
