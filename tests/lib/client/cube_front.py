# SPDX-License-Identifier: Apache-2.0
"""cubbyd in the shape of a CubeSandbox cluster: CubeAPI ("api"), CubeMaster ("master"), CubeProxy
("proxy"), and the guests' own addresses ("direct").

Its behaviour is what the real CubeAPI, CubeMaster and CubeProxy of May 2026 (before 0.3) were seen
to do: version 1 of the routes, ids of 32 hexadecimal digits, no token, no time to live, an
environment that is dropped, 422 in plain text, nginx's pages for a closed port (502), for a sandbox
that it never knew (500), and, after three seconds, for one whose address it knows and that has ended
(504), a list whose times are all now and whose states are all "running", success for the end of an
unknown sandbox, 500 for its pause, and no answer from the guest of a paused one. CubeProxy has
proxy_buffering on: it passes an answer on when 16 KiB of it are there, or when it has ended.

version: what its documents and source say of later ones. (0, 3): snapshots, rollback and forks.
(0, 6), with what came in 0.5: times to live, the environment of a create, network policies as E2B's
lists, the list of volumes, 404 for an unknown sandbox, and from CubeProxy JSON in place of pages: 404
and 410. (0, 7): the policy of a sandbox that runs. streams: the later CubeProxy, which passes on
commands and watches as they come. envd_0_2: the guest has an envd of the 0.2 line, as very old
images do; "0.2.0" is what CubeAPI of before 0.5 says of every envd.
"""

import asyncio
import base64
import datetime
import json
import re
import secrets

from front import Answer, Front

DOMAIN = "cube.app"
HOST = re.compile(r"(\d+)-([0-9a-f]{32})\." + re.escape(DOMAIN))
HELD = 16384   # proxy_buffer_size
STREAMS = {"/process.Process/Start", "/process.Process/Connect", "/filesystem.Filesystem/WatchDir"}
LIFE_S = 3600  # that cubbyd is told: CubeSandbox itself would end nothing
CACHED_S = 3   # until CubeProxy gives up an address at which nobody answers


class CubeFront(Front):
    def __init__(self, daemon, listeners, add_address=None, envd_0_2=False, streams=False, version=(0, 2)):
        self.envd_0_2, self.streams, self.version = envd_0_2, streams, version
        self.cached = set()  # cube's ids whose addresses CubeProxy knows
        self.sandboxes = {}  # cube's id: {"id": cubbyd's, "token":, "address":, "late":}
        self.unfinished = []  # bodies of creates that were answered 408
        self.add_address = add_address  # None: guests have no address of their own
        self.given_up = None            # looks at the list until a create that took too long is done
        self.late = 0                   # looks at a new sandbox that come too early
        super().__init__(daemon, listeners)

    async def handle(self, request, reader, writer):
        name = request.where[0]
        if "x-access-token" in request.headers:
            self.wrong.append(f"a token for {request.target}: there is none")
        if request.headers.keys() & {"e2b-sandbox-id", "e2b-sandbox-port"}:
            self.wrong.append(f"routed by header: {request.target}")
        if name == "api":
            await self.cube_api(request)
        elif name == "master":
            await self.master(request)
        elif name == "proxy":
            await self.proxy(request, reader, writer)
        else:
            await self.direct(request, reader, writer)

    # ---- CubeAPI
    async def cube_api(self, request):
        route = (request.method, request.path)
        if route == ("GET", "/health"):
            raise Answer(200, {"status": "ok", "sandboxes": len(self.sandboxes)})
        if route == ("POST", "/v2/sandboxes"):
            raise Answer(405)
        if route == ("POST", "/sandboxes"):
            await self.create(request)
        if route in (("GET", "/sandboxes"), ("GET", "/v2/sandboxes")):
            await self.list(request)
        match = re.fullmatch(r"/sandboxes/([0-9a-f]{32})", request.path)
        if match and request.method in ("GET", "DELETE"):
            await self.one(request.method, match[1])
        match = re.fullmatch(r"/sandboxes/([0-9a-f]{32})/(pause|resume|connect)", request.path)
        if match and request.method == "POST":
            await self.pause_or_resume(match[1], match[2])
        if self.version >= (0, 3):
            await self.later_api(request)
        if self.version >= (0, 6):
            await self.newer_api(request)
        if re.fullmatch(r"/sandboxes/[^/]+/(timeout|refreshes|snapshots|logs)", request.path):
            # What CubeAPI itself has no backend for, and says so: the client must do without.
            raise Answer(501, {"code": 501, "message": "not implemented"})
        raise Answer(404)  # as axum answers for a route that is not there

    async def later_api(self, request):
        """What CubeAPI has since 0.3, in the form of its models."""
        if (request.method, request.path) == ("GET", "/snapshots"):
            _, _, found = await self.api("GET", "/snapshots")
            ids = {s["id"]: cube_id for cube_id, s in self.sandboxes.items()}
            raise Answer(200, [{"snapshotID": s["snapshotID"].partition(":")[0], "names": s["names"],
                                "status": "READY", "originSandboxID": ids.get(s.get("sandboxID"))} for s in found])
        match = re.fullmatch(r"/templates/(snap-[a-z0-9]+)", request.path)
        if match and request.method == "DELETE":
            status, _, said = await self.api("DELETE", request.path)
            raise Answer(200, {"templateID": match[1], "operationID": "o", "status": "READY"}) if status == 204 \
                else Answer(status, said)
        match = re.fullmatch(r"/sandboxes/([0-9a-f]{32})/(snapshots|rollback|fork)", request.path)
        if not match or request.method != "POST":
            return
        known = self.sandboxes.get(match[1])
        if not known:
            raise Answer(404, {"code": 404, "message": f"sandbox {match[1]} not found"})
        status, _, said = await self.api("POST", f"/sandboxes/{known['id']}/{match[2]}", request.json)
        if status >= 300:
            raise Answer(status, said)
        if match[2] == "snapshots":
            raise Answer(201, {"snapshotID": said["snapshotID"].partition(":")[0], "names": said["names"]})
        if match[2] == "rollback":
            raise Answer(200, {"sandboxID": match[1], "snapshotID": request.json["snapshotID"], "operationID": "o",
                               "status": "READY"})
        raise Answer(201, [{"sandbox": self.known(one["sandbox"])} for one in said])

    async def newer_api(self, request):
        """What CubeAPI has since 0.6, and some of it since 0.5 or 0.7."""
        if (request.method, request.path) == ("GET", "/volumes"):
            raise Answer(200, [])
        match = re.fullmatch(r"/sandboxes/([0-9a-f]{32})/(timeout|network)", request.path)
        method = {"timeout": "POST", "network": "PUT"}.get(match and match[2])
        if not match or request.method != method or (match[2] == "network" and self.version < (0, 7)):
            return
        known = self.sandboxes.get(match[1])
        if not known:
            raise Answer(404, {"code": 404, "message": f"sandbox {match[1]} not found"})
        allowed = {"timeout"} if match[2] == "timeout" else {"allowOut", "denyOut", "allow_internet_access"}
        if set(request.json) - allowed:
            self.wrong.append(f"{request.method} {request.path} with {request.json}")
        status, _, said = await self.api(method, f"/sandboxes/{known['id']}/{match[2]}", request.json)
        raise Answer(status, said) if said else Answer(status)

    def shape(self, cube_id, info):
        envd = {} if self.version >= (0, 6) else {"envdVersion": "0.2.0"}
        return {k: v for k, v in info.items()
                if k not in ("envdAccessToken", "trafficAccessToken", "sandboxID")} | envd | {
                    "sandboxID": cube_id, "domain": DOMAIN, "clientID": "10.0.0.1"}

    async def create(self, request):
        body = request.json
        if "templateID" not in body:
            raise Answer(422, "Failed to deserialize the JSON body into the target type: "
                              "missing field `templateID` at line 1 column 2", "text/plain")
        newer = {"envVars"} if self.version >= (0, 6) else set()
        for key in set(body) - {"templateID", "timeout", "metadata", "allow_internet_access", "network", *newer}:
            self.wrong.append(f"a create with {key}, which is dropped")
        if self.given_up is not None:
            self.unfinished.append(body)
            raise Answer(408)
        raise Answer(201, await self.make(body))

    async def make(self, body):
        wish = {"templateID": body["templateID"], "metadata": body.get("metadata", {}), "timeout": LIFE_S}
        if self.version >= (0, 6):
            wish |= {key: body[key] for key in ("timeout", "envVars", "network", "allow_internet_access") if key in body}
        status, _, made = await self.api("POST", "/v2/sandboxes", wish)
        if status != 201:
            raise Answer(status, made)
        return self.known(made)

    def known(self, made):
        """Note a sandbox of cubbyd; return what CubeAPI says of it."""
        cube_id = secrets.token_hex(16)
        self.sandboxes[cube_id] = {"id": made["sandboxID"], "token": made["envdAccessToken"],
                                   "address": self.add_address() if self.add_address else None,
                                   "late": self.late, "paused": False}
        return self.shape(cube_id, made)

    async def list(self, request):
        if self.unfinished and self.given_up == 0:
            await self.make(self.unfinished.pop())
        elif self.unfinished:
            self.given_up -= 1
        _, _, all_of_them = await self.api("GET", "/v2/sandboxes")
        names = {s["id"]: cube_id for cube_id, s in self.sandboxes.items()}
        if request.query:
            self.wrong.append(f"a list with ?{request.query}, which is compared as it stands")
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        invented = {"startedAt": now, "endAt": now, "state": "running"}
        raise Answer(200, [self.shape(names[s["sandboxID"]], s) | invented for s in all_of_them
                           if s["sandboxID"] in names])

    async def pause_or_resume(self, cube_id, what):
        known = self.sandboxes.get(cube_id)
        if not known:
            raise Answer(500, {"code": 500, "message": "130400: sandbox not found"})
        body = {} if what == "pause" else {"timeout": LIFE_S}
        status, _, info = await self.api("POST", f"/sandboxes/{known['id']}/{what}", body)
        if status == 409 and what == "pause":
            raise Answer(500, {"code": 500, "message": "130490: sandbox is not running"})
        known["paused"] = what == "pause"
        raise Answer(204) if what == "pause" else Answer(201, self.shape(cube_id, info))

    async def one(self, method, cube_id):
        known = self.sandboxes.get(cube_id)
        if not known and method == "DELETE" and self.version < (0, 6):
            raise Answer(204)
        if not known:
            raise Answer(404, {"code": 404, "message": f"sandbox {cube_id} not found"})
        status, _, info = await self.api(method, f"/sandboxes/{known['id']}")
        if method == "DELETE" or status == 404:
            del self.sandboxes[cube_id]
        if status == 404:
            raise Answer(404, {"code": 404, "message": f"sandbox {cube_id} not found"})
        raise Answer(status, self.shape(cube_id, info) if info else "")

    # ---- CubeMaster
    async def master(self, request):
        cube_id = re.fullmatch(r"sandbox_id=([0-9a-f]{32})", request.query)
        if request.path != "/cube/sandbox/info" or not cube_id:
            raise Answer(200, {"ret": {"ret_code": 130400, "ret_msg": "bad request"}})
        known = self.sandboxes.get(cube_id[1])
        if not known:
            raise Answer(200, {"ret": {"ret_code": 130404, "ret_msg": "sandbox not found"}})
        raise Answer(200, {"requestID": "r", "ret": {"ret_code": 200, "ret_msg": "success"}, "data": [
            {"sandbox_id": cube_id[1], "status": 5 if known["paused"] else 1, "host_id": "h", "sandbox_ip": known["address"]}]})

    # ---- the ways to a guest
    async def proxy(self, request, reader, writer):
        host = HOST.fullmatch(request.host)
        if not host:
            raise Answer(400, "<html><body>bad host</body></html>", "text/html", X_Cube_Retcode="310400")
        known = self.sandboxes.get(host[2])
        if known and known["late"]:
            known["late"] -= 1
            raise Answer(502, "<html><body>Bad Gateway</body></html>", "text/html")
        if not known:
            await self.unknown(host[2])
        self.cached.add(host[2])
        hold = 0 if self.streams and request.path in STREAMS else HELD
        await self.guest(known, int(host[1]), request, reader, writer, hold)

    async def unknown(self, cube_id):
        if self.version >= (0, 6):
            raise Answer(410, {"error": "sandbox killed"}) if cube_id in self.cached else Answer(404, {"error": "not found"})
        if cube_id in self.cached:
            await asyncio.sleep(CACHED_S)
            raise Answer(504, "<html><head><title>504 Gateway Time-out</title></head></html>", "text/html")
        raise Answer(500, "<html><body>Internal Error</body></html>", "text/html", X_Cube_Retcode="310500")

    async def direct(self, request, reader, writer):
        known = next((s for s in self.sandboxes.values() if s["address"] == request.where[1]), None)
        if not known:
            return  # nobody has that address: the connection is dropped
        await self.guest(known, 49983, request, reader, writer)

    async def guest(self, known, port, request, reader, writer, hold=0):
        if known["paused"]:  # its network stands still
            await reader.read()
            return
        body = self.envd(request) if port == 49983 and self.envd_0_2 else None
        page = Answer(502, "<html><head><title>502 Bad Gateway</title></head></html>", "text/html",
                      X_Cube_Retcode="330502")
        await self.passed_on(request, known["id"], port, known["token"], reader, writer, body, page, hold)

    def envd(self, request):
        """Refuse requests that envd 0.2 does not know. Return the body that is passed on."""
        basic = request.headers.get("authorization", "").startswith("Basic ")
        if request.path == "/health":
            return None
        if request.path == "/files":
            if not basic and "username=" not in request.query:
                raise Answer(401, {"code": 401, "message": "no user specified"})
            kind = request.headers.get("content-type", "")
            if request.method == "POST" and not kind.startswith("multipart/form-data"):
                raise Answer(400, {"code": 400, "message": "request Content-Type isn't multipart/form-data"})
            return None
        if not basic:
            raise Answer(401, {"code": "unauthenticated", "message": "no user specified"})
        if request.path in ("/process.Process/CloseStdin", "/files/compose", "/metrics"):
            raise Answer(404, "404 page not found\n", "text/plain; charset=utf-8")
        if request.path == "/process.Process/Start":
            return self.start(request)
        return None

    def start(self, request):
        """Before 0.3 stdin is always open, and stays open."""
        message = json.loads(request.body[5:])
        if "stdin" in message:
            self.wrong.append("a Start with stdin, which this envd does not know")
        body = json.dumps(message | {"stdin": True}).encode()
        return b"\0" + len(body).to_bytes(4, "big") + body


def named_user(request):
    """The user that a request's Authorization names."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    return base64.b64decode(value).decode().rstrip(":") if kind == "Basic" else None
