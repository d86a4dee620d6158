# SPDX-License-Identifier: Apache-2.0
"""A fleet under load, by hand (`make fleet-test`): three daemons behind haproxy, 300 sandboxes, 20 clients; one daemon
is killed and started again, and the sandboxes of another one are moved to the third, while the clients work. Then the
cost of the proxy.

Prints a line of JSON. Fails if a sandbox is lost or is there twice, if a request reaches a wrong node, or if a request
fails that was not for the killed node. FLEET_SANDBOXES, FLEET_CLIENTS and FLEET_SECONDS change the size.
"""

import collections
import concurrent.futures
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time

from cubbyd import wait_for
from fleet import DrainNode, Fleet, GuestNode

SANDBOXES = int(os.environ.get("FLEET_SANDBOXES", "300"))
CLIENTS = int(os.environ.get("FLEET_CLIENTS", "20"))
SECONDS = int(os.environ.get("FLEET_SECONDS", "30"))
COMMANDS = 600
ANSWER_S = 90  # a request to a sandbox that is being moved waits for a minute at most
LOOK_S = 75  # before that, what is known of a request that has no answer is printed
KILLED, DRAINED, TAKER = "b", "c", "a"


class Client(threading.Thread):
    """Looks at random sandboxes, sends requests into them, lists, creates and ends some of its own."""

    def __init__(self, fleet, sandboxes, seed):
        super().__init__()
        self.fleet, self.sandboxes, self.random = fleet, sandboxes, random.Random(seed)
        self.over = threading.Event()
        self.asking = None  # when the request began, and the request
        self.seen = collections.Counter()
        self.wrong, self.own, self.cuts, self.odd = [], [], [], []

    def note(self, node, answer, good, sandbox=None):
        if answer is None:
            self.seen[node, "cut"] += 1
        elif answer.status in good:
            self.seen[node, "ok"] += 1
            if sandbox and answer.json["sandboxID"] != sandbox:
                self.wrong.append((sandbox, answer.body))
        elif answer.status == 421:
            self.wrong.append((node, answer.body))
        else:
            self.seen[node, answer.status] += 1
            if node not in (KILLED, "any", "create"):
                self.odd.append(f"{node}: {answer.status} {answer.body[:300]!r}")

    def ask(self, *words, **more):
        began = time.monotonic()
        self.asking = (began, f"{words[:2]} {more}")
        try:
            return self.fleet.request(*words, **more, timeout=ANSWER_S)
        except (OSError, http.client.HTTPException) as error:
            self.cuts.append(f"{words[:2]} {more} after {time.monotonic() - began:.1f} s: {error!r}")
            return None
        finally:
            self.asking = None

    def one(self):
        sandbox = self.random.choice(self.sandboxes)
        what = self.random.randrange(20)
        if what < 8:
            self.note(sandbox[0], self.ask("GET", f"/sandboxes/{sandbox}"), {200}, sandbox)
        elif what < 17:
            routed = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "49983"}
            self.note(sandbox[0], self.ask("GET", "/health", headers=routed), {204})
        elif what == 17:
            self.note("any", self.ask("GET", "/v2/sandboxes?limit=100"), {200})
        elif what == 18 or not self.own:
            made = self.ask("POST", "/v2/sandboxes", {"templateID": "default", "timeout": 3600})
            self.note("create", made, {201})
            if made and made.status == 201:
                self.own.append(made.json["sandboxID"])
        else:
            mine = self.own[0]
            ended = self.ask("DELETE", f"/sandboxes/{mine}")
            self.note(mine[0], ended, {204})
            if ended and ended.status in (204, 404):
                self.own.pop(0)

    def run(self):
        while not self.over.is_set():
            self.one()


class Watch(threading.Thread):
    """Prints for each request that gets no answer what the proxy and the kernel know of its connections, once."""

    def __init__(self, fleet, clients):
        super().__init__(daemon=True)
        self.fleet, self.clients, self.told = fleet, clients, set()
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(1):
            late = {asking for asking in (c.asking for c in self.clients)
                    if asking and time.monotonic() - asking[0] > LOOK_S}
            if late - self.told:
                self.tell(late - self.told)
                self.told |= late

    def tell(self, late):
        sockets = subprocess.run(["ss", "-tanp"], capture_output=True, text=True, check=False).stdout
        nodes = {name: (node.port, node.process.pid) for name, node in self.fleet.nodes.items()}
        print(f"no answer after {LOOK_S} s: {late}\nports and processes of the nodes: {nodes}\n"
              f"{self.fleet.proxy_sessions()}\n{sockets}", file=sys.stderr, flush=True)


def whole_list(fleet):
    found, token = [], ""
    while True:
        answer = fleet.request("GET", f"/v2/sandboxes?limit=100&nextToken={token}")
        assert answer.status == 200 and not answer.headers["Cubby-Missing-Nodes"]
        found += [one["sandboxID"] for one in answer.json]
        token = answer.headers["X-Next-Token"]
        if not token:
            return found


def fill(fleet):
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda _: fleet.create(timeout=3600)["sandboxID"], range(SANDBOXES)))


def trouble(fleet, made):
    """Kills one node and starts it again, and moves the sandboxes of another away, a third of the time each or more.
    Returns the seconds that both took, and what was said of each sandbox."""
    time.sleep(SECONDS / 3)
    killed = fleet.nodes[KILLED]
    killed.process.kill()
    killed.process.wait()
    died = time.monotonic()
    killed.start()
    theirs = next(s for s in made if s.startswith(KILLED))
    wait_for(lambda: fleet.through(theirs).status == 204, 60, "the killed node is back")
    back = time.monotonic() - died
    time.sleep(SECONDS / 3)
    began = time.monotonic()
    drain = fleet.start_drain(DRAINED, TAKER)
    out, err = drain.communicate(timeout=600)
    moved = time.monotonic() - began
    assert drain.returncode == 0, out + err
    time.sleep(SECONDS / 3)
    return back, moved, collections.Counter(line.split(" ", 1)[1] for line in out.splitlines())


def under_load():
    fleet = Fleet("a", "b", "c", kind=DrainNode)
    fleet.list_nodes(**{DRAINED: f"then={TAKER}"})
    with fleet:
        made = fill(fleet)
        clients = [Client(fleet, made, seed) for seed in range(CLIENTS)]
        started = time.monotonic()
        watch = Watch(fleet, clients)
        for thread in *clients, watch:
            thread.start()
        back, moved, said = trouble(fleet, made)
        for client in clients:
            client.over.set()
        for client in clients:
            client.join()
        watch.over.set()
        seconds = time.monotonic() - started
        seen = sum((c.seen for c in clients), collections.Counter())
        wrong = [w for c in clients for w in c.wrong]
        expected = {*made, *(s for c in clients for s in c.own)}
        listed = whole_list(fleet)
        lost = [s for s in made if fleet.through(s).status != 204]
        failed = {f"{node} {what}": n for (node, what), n in sorted(seen.items(), key=str) if what != "ok"}
        elsewhere = [key for key in failed if key.split()[0] not in (KILLED, "create", "any")]
        report = {"sandboxes": len(made), "per_node": dict(collections.Counter(s[0] for s in made)), "clients": CLIENTS,
                  "requests": sum(seen.values()), "per_second": round(sum(seen.values()) / seconds), "failed": failed,
                  "back_after_s": round(back, 2), "moved_in_s": round(moved, 2), "moves": said,
                  "left_behind": fleet.nodes[DRAINED].directories(), "twice": len(listed) - len(set(listed)), "lost": lost, "wrong_node": wrong,
                  "cuts": [cut for c in clients for cut in c.cuts], "odd": [odd for c in clients for odd in c.odd],
                  "missing_in_list": sorted(expected - set(listed)), "unexpected_failures": elsewhere}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda s: fleet.request("DELETE", f"/sandboxes/{s}"), listed))
        return report


def start_message():
    message = json.dumps({"process": {"cmd": "/bin/true", "args": []}, "stdin": False}).encode()
    return b"\0" + len(message).to_bytes(4, "big") + message


def command_ms(port, sandbox, token, count):
    """The time of each command on one connection that is kept."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "49983", "X-Access-Token": token,
               "Authorization": "Basic dXNlcjo=", "Content-Type": "application/connect+json"}
    times = []
    for _ in range(count):
        begin = time.monotonic()
        connection.request("POST", "/process.Process/Start", start_message(), headers)
        answer = connection.getresponse()
        body = answer.read()
        times.append((time.monotonic() - begin) * 1000)
        assert answer.status == 200 and b'"end"' in body, body
    connection.close()
    return times


def cost():
    """Medians in turns, so that the load of the host hits both alike."""
    with Fleet("a", kind=GuestNode) as fleet:
        made = fleet.create(templateID="bare")
        direct, proxied = [], []
        for _ in range(COMMANDS // 20):
            direct += command_ms(fleet.nodes["a"].port, made["sandboxID"], made["envdAccessToken"], 20)
            proxied += command_ms(fleet.port, made["sandboxID"], made["envdAccessToken"], 20)
        return {"direct_ms": round(statistics.median(direct), 2), "proxy_ms": round(statistics.median(proxied), 2),
                "commands": len(direct)}


def main():
    report = {**under_load(), **cost()}
    print(json.dumps(report))
    bad = [report[k] for k in ("left_behind", "twice", "lost", "wrong_node", "missing_in_list", "unexpected_failures") if report[k]]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
