# SPDX-License-Identifier: Apache-2.0
"""`make crash`, its last part: the command line or the daemon is killed at each event of a real build.

The build is one of a Dockerfile in microVMs. After each kill the next build of the name must find the finished steps
in the cache, and must sweep what the killed one left. At the end a whole build must succeed and leave nothing else.
EVENTS=n: only the first n events (default: all).
"""

import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from harness import wait_for  # noqa: E402
from test_build import Builder  # noqa: E402

TEXT = "FROM default\nRUN echo one >/one\nCOPY file /copied\nRUN echo {salt} >/two; cat /one\n"
SALTS = itertools.count()
END_S = 900


def started(builder, text):
    builder.write(text)
    return subprocess.Popen(builder.command("made"), env=builder.env, stdout=subprocess.PIPE, text=True)


def victim_of(builder, build, victim):
    return build.pid if victim == "command line" else wait_for(builder.daemon, what="the daemon")


def killed_at(builder, text, victim, number):
    """Kill the victim at the event of that number. Return the events, or None if the build had fewer."""
    build, events = started(builder, text), []
    for line in build.stdout:
        events.append(json.loads(line))
        if len(events) == number:
            os.kill(victim_of(builder, build, victim), signal.SIGKILL)
            break
    else:
        build.wait(END_S)
        return None
    rest = build.communicate(timeout=END_S)[0].splitlines()
    return events + [json.loads(line) for line in rest]


def finished(events):
    """The steps whose result was kept: those that another step of the build followed."""
    return [e["name"] for e in events if e["event"] == "step"][:-1]


def check(builder, text, events):
    """The next build, which fails at its last step, finds what was finished, and leaves no sandbox."""
    status, again = builder.build(text + "RUN exit 4\n")
    assert status == 1 and "status 4" in again[-1]["message"], again[-2:]
    cached = [e["name"] for e in again if e["event"] == "step" and e["cached"]]
    lost = [name for name in finished(events) if name not in cached]
    assert not lost, f"these steps ran again: {lost}"
    wait_for(lambda: builder.listed() == [], 60, "no sandbox is left")
    made = builder.path / "templates" / "made"
    assert not made.exists() or (made / "template.json").exists(), "half a template"
    assert os.listdir(builder.path / "build-work") == [], "the work of a build is left"


def try_all(builder, victim, most):
    begin, wrong, count = time.monotonic(), [], 0
    for number in range(1, most + 1):
        text = TEXT.format(salt=next(SALTS))
        events = killed_at(builder, text, victim, number)
        if events is None:
            break
        count += 1
        try:
            check(builder, text, events)
        except AssertionError as error:
            wrong.append(f"{victim} at event {number} ({events[number - 1]}): {error}")
    print(f"| build, the {victim} killed | {count} | {len(wrong)} | {time.monotonic() - begin:.0f} |", flush=True)
    return wrong


def main():
    most = int(os.environ.get("EVENTS", "1000"))
    print("| operation | kills | failures | seconds |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as context, contextlib.closing(Builder(context)) as builder:
        builder.write("copied\n", "file")
        builder.cubby("kill", builder.cubby("create").strip())  # starts the daemon
        wrong = [error for victim in ("command line", "daemon") for error in try_all(builder, victim, most)]
        builder.good(TEXT.format(salt="whole"))
        left = sorted(os.listdir(builder.path / "templates"))
        if left != ["default", "made"]:
            wrong.append(f"left behind: {left}")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
