# SPDX-License-Identifier: Apache-2.0
"""The call log: the figures that code shows. The bytes decide what is a picture."""

import base64
import json

from cubbyd import Daemon, read_head, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from records import is_chained, kernel, raw, record

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (8).to_bytes(4, "big") * 2 + bytes(9)


def run_in_kernel(daemon, results):
    """The lines of the record after a run of code whose kernel answers these results."""
    said = b"".join(json.dumps({"type": "result", **r}, separators=(",", ":")).encode() + b"\n" for r in results)
    body = json.dumps({"code": "plot()"}).encode()

    def serve(connection):
        _, rest = read_head(connection)
        while len(rest) < len(body):
            rest += connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said)

    with kernel(daemon, serve) as made:
        assert daemon.through(made["sandboxID"], "POST", "/execute", body, port=49999, token=made["envdAccessToken"]).status == 200
        wait_for(lambda: record(daemon, made["sandboxID"], "end"), 30, "the run has its lines")
        assert is_chained(raw(daemon, made["sandboxID"]))
        return record(daemon, made["sandboxID"], "code", "figure", "end")


def test_figures_are_kept(daemon):
    chart = {"points": [[n, n] for n in range(1000)]}
    code, first, second, end = run_in_kernel(daemon, [
        {"text": "<Figure>", "png": base64.b64encode(PNG + bytes(100000)).decode() + "\n", "is_main_result": False, "chart": chart},
        {"jpeg": base64.b64encode(b"\xff\xd8\xff\xe0").decode()}, {"text": "42", "is_main_result": True}])
    assert first["of"] == second["of"] == end["of"] == code["n"]
    assert (first["type"], first["bytes"], second["type"]) == ("image/png", len(PNG) + 100000, "image/jpeg")
    assert base64.b64decode(first["data"]) == PNG + bytes(100000)
    assert (end["figures"], end["results"], end["result"]) == (2, 3, "42")


def test_what_is_no_figure(daemon):
    """The bytes decide. A figure that is not kept is told, up to a number."""
    html = base64.b64encode(b"<script>alert(1)</script>").decode()
    lines = run_in_kernel(daemon, [
        {"png": html}, {"png": "?"}, {"jpeg": base64.b64encode(PNG).decode()}, {"svg": "<svg/>"}, {"png": {"a": 1}},
        {"text": "big", "png": base64.b64encode(PNG + bytes(128 << 10)).decode(), "is_main_result": True}]
        + [{"png": html}] * 20)
    figures, end = lines[1:-1], lines[-1]
    assert [f["why"] for f in figures] == ["not a picture"] * 3 + ["too large"] + ["not a picture"] * 12
    assert not any("data" in f for f in figures) and end["figures"] == 16 and end["results"] == 26 and end["result"] == "big"


def test_no_output_no_figures():
    with Daemon("--record-output", "0") as daemon:
        lines = run_in_kernel(daemon, [{"text": "x", "png": base64.b64encode(PNG).decode()}])
        assert [line["kind"] for line in lines] == ["code", "end"]
