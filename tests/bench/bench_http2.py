# SPDX-License-Identifier: Apache-2.0
"""What HTTP/2 would bring E2B's SDKs: the same calls over TLS with HTTP/1.1 and HTTP/2, each through HAProxy, and
straight to cubbyd. By hand, for docs/performance.md:

  make bench-http2
"""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from cubbyd import wait_for
from fleet import HAPROXY, free_ports
from sdk import CLIENTS, NODE, OURS, Guests
from wildcard import certificate

ROUNDS = 5
PROGRAM = """
import { createRequire } from 'node:module'
const { Sandbox } = createRequire(process.env.CLIENTS + '/')('e2b')
const sandbox = await Sandbox.create('bare', { timeoutMs: 600_000 })
await sandbox.commands.run('true')
const ms = async (work) => { const from = performance.now(); await work(); return performance.now() - from }
const one = await ms(async () => { for (let i = 0; i < 50; i++) await sandbox.commands.run('true') })
const many = await ms(() => Promise.all(Array.from({ length: 50 }, () => sandbox.commands.run('true'))))
const files = await ms(() => Promise.all(Array.from({ length: 50 }, (_, i) => sandbox.files.write(`f${i}`, 'x'))))
await sandbox.kill()
console.log(JSON.stringify({ one: one / 50, many, files }))
"""
CONFIG = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend one
  bind 127.0.0.1:{one} ssl crt {pem} alpn http/1.1
  default_backend node
frontend two
  bind 127.0.0.1:{two} ssl crt {pem} alpn h2,http/1.1
  default_backend node
backend node
  http-reuse safe
  server node 127.0.0.1:{node}
"""


def measure(url, cert, key):
    environment = {k: v for k, v in os.environ.items() if k not in OURS}
    environment |= {"CLIENTS": str(CLIENTS), "E2B_API_KEY": key, "E2B_API_URL": url, "E2B_SANDBOX_URL": url,
                    "NODE_TLS_REJECT_UNAUTHORIZED": "0", "NODE_EXTRA_CA_CERTS": str(cert)}
    done = subprocess.run([NODE, "--input-type=module", "-e", PROGRAM], env=environment, text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def protocol_of(url):
    version = subprocess.run(["curl", "-sk", "-o", "/dev/null", "-w", "%{http_version}", url + "/health"], text=True,
                             capture_output=True, timeout=60, check=True).stdout
    return "HTTP/" + version


def main():
    where = pathlib.Path(tempfile.mkdtemp(prefix="cubby-http2-"))
    cert, key = certificate(where)
    (where / "both.pem").write_text(cert.read_text() + key.read_text())
    one, two, tls = free_ports(3)
    with Guests() as plain, Guests("--listen", f"127.0.0.1:{tls}", "--tls-cert", cert, "--tls-key", key) as direct:
        node = plain.url.rsplit(":", 1)[1]
        (where / "haproxy.cfg").write_text(CONFIG.format(one=one, two=two, pem=where / "both.pem", node=node))
        proxy = subprocess.Popen([HAPROXY, "-f", where / "haproxy.cfg"], stderr=subprocess.DEVNULL)
        urls = {"cubbyd": direct.url, "HAProxy, HTTP/1.1": f"https://127.0.0.1:{one}",
                "HAProxy, HTTP/2": f"https://127.0.0.1:{two}"}
        try:
            wait_for(lambda: subprocess.run(["curl", "-skf", urls["HAProxy, HTTP/2"] + "/health"], timeout=60,
                                            capture_output=True, check=False).returncode == 0, 30, "HAProxy")
            spoken = {name: protocol_of(url) for name, url in urls.items()}
            rounds = {name: [] for name in urls}
            for _ in range(ROUNDS):
                for name, url in urls.items():
                    rounds[name].append(measure(url, cert, plain.variables()["E2B_API_KEY"]))
        finally:
            proxy.terminate()
            proxy.wait()
    for name, all_of in rounds.items():
        figures = {what: round(statistics.median(r[what] for r in all_of), 1) for what in ("one", "many", "files")}
        print(json.dumps({"way": name, "protocol": spoken[name], "rounds": ROUNDS, **figures}))


if __name__ == "__main__":
    main()
