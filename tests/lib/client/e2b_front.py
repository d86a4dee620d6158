# SPDX-License-Identifier: Apache-2.0
"""cubbyd in the shape of an E2B deployment: "api" wants X-API-KEY; "sandbox" answers to wildcard
host names, or, for one of E2B's own domains, to sandbox.<domain> with routing headers. Tokens are
as with cubbyd.
"""

import re

from front import Answer, Front

KEY = "e2b_" + "ab" * 20
OWN_DOMAINS = ("e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev")


class E2bFront(Front):
    """domain: of its sandboxes. only_v1: an older control plane. envd: the version that it reports."""

    def __init__(self, daemon, listeners, domain, only_v1=False, envd=None):
        self.domain = domain
        self.only_v1 = only_v1
        self.envd = envd
        super().__init__(daemon, listeners)

    async def handle(self, request, reader, writer):
        if request.where[0] == "api":
            await self.control(request)
        else:
            await self.sandbox(request, reader, writer)

    # ---- the control plane
    async def control(self, request):
        if request.path == "/health":
            raise Answer(200, "Health check successful", "text/plain")
        if request.headers.get("x-api-key") != KEY:
            raise Answer(401, {"code": 401, "message": "Unauthorized, please check your credentials."})
        if self.only_v1 and request.path.startswith("/v2/"):
            raise Answer(405 if request.method == "POST" else 404, "404 page not found", "text/plain")
        if request.method == "POST" and request.path == "/v2/sandboxes" and "secure" in request.json:
            self.wrong.append("the second version of create has no `secure`")
        body = request.json if request.body else None
        target = request.target
        if self.only_v1 and request.method == "GET" and request.path == "/sandboxes":
            target = "/v2" + target
        status, headers, answer = await self.api(request.method, target, body)
        more = {"X_Next_Token": headers["x-next-token"]} if "x-next-token" in headers else {}
        if isinstance(answer, dict) and "sandboxID" in answer:
            answer |= {"domain": self.domain}
            answer |= {"envdVersion": self.envd} if self.envd else {}
        raise Answer(status, answer if answer is not None else "", **more)

    # ---- the way to a sandbox
    async def sandbox(self, request, reader, writer):
        wildcard = re.fullmatch(r"(\d+)-([a-z0-9]+)\." + re.escape(self.domain), request.host)
        if "x-api-key" in request.headers:
            self.wrong.append(f"the API key went to a sandbox: {request.target}")
        if wildcard:
            port, sandbox = int(wildcard[1]), wildcard[2]
        elif self.domain in OWN_DOMAINS and request.host == f"sandbox.{self.domain}":
            sandbox, port = request.headers["e2b-sandbox-id"], int(request.headers["e2b-sandbox-port"])
        else:
            raise Answer(400, f"no such host: {request.host}", "text/plain")
        if self.envd and self.envd < "0.4" and port == 49983 and request.path != "/health":
            if "authorization" not in request.headers:
                raise Answer(401, {"code": "unauthenticated", "message": "no user specified"})
        await self.passed_on(request, sandbox, port, request.headers.get("x-access-token"), reader, writer)
