# SPDX-License-Identifier: Apache-2.0
"""--links: results link to the files that they name. Without it no result has a link, because the
model adapters of LangChain, AutoGen and Semantic Kernel fail on a resource_link block.
"""

import base64
import http.server
import pathlib
import threading

import kernel_peer
import pytest
from harness import text_of
from mcp_envd import real, sandbox, start  # noqa: F401

UPLOAD = "upload_file_from_local_to_sandbox"
INTERNET = "download_file_from_internet_to_sandbox"
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nprint('drawn')"


@pytest.fixture
def site():
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"data")

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/x.txt"
    server.shutdown()
    server.server_close()


@pytest.fixture
def kernel(real):  # noqa: F811
    shared = kernel_peer.shared()
    shared.request("POST", "/contexts/default/restart")
    real.kernel = ("127.0.0.1", shared.port)


def every_tool_that_names_a_file(tmp_path, site):
    (tmp_path / "in.txt").write_text("hello")
    path = f"{tmp_path}/new/f ü.txt"
    return [
        ("write_file", {"path": path, "content": "eins\n"}, [(path, 5, None)]),
        ("edit_file", {"path": path, "old_text": "eins", "new_text": "zwei!"}, [(path, 6, None)]),
        (UPLOAD, {"local_file_path": "in.txt", "sandbox_file_path": f"{tmp_path}/a b.txt"},
         [(f"{tmp_path}/a b.txt", 5, None)]),
        (INTERNET, {"url": site, "sandbox_file_path": f"{tmp_path}/x.txt"},
         [(f"{tmp_path}/x.txt", 4, None)]),
    ]


def links_of(result):
    return [block for block in result["content"] if block["type"] == "resource_link"]


def check(link, path, size, mime_type):
    assert link["uri"].endswith(path.replace(" ", "%20").replace("ü", "%C3%BC"))
    assert (link["name"], link["size"], link.get("mimeType")) == (path.split("/")[-1], size, mime_type)


@pytest.mark.parametrize("options, linked", [
    ([], False), (["--links"], True), (["--links", "--profile", "miroflow", "--tools", "run,files,transfer"], False)],
    ids=["default", "links", "miroflow"])
def test_links_only_when_asked_for(start, sandbox, kernel, site, tmp_path, options, linked):  # noqa: F811
    server = start(*options, "--output-bytes=1000", "--allow-download-from", "127.0.0.1")
    for tool, arguments, files in every_tool_that_names_a_file(tmp_path, site):
        result = server.result(tool, sandbox_id=sandbox, **arguments)
        assert not result.get("isError") and result["content"][0]["type"] == "text", result
        assert len(links_of(result)) == (len(files) if linked else 0), tool
        for link, (path, size, mime_type) in zip(links_of(result), files):
            assert link["uri"].startswith(f"sandbox://{sandbox}/")
            check(link, path, size, mime_type)
    long = server.result("run_command", sandbox_id=sandbox, command="seq 5000; seq 4000 >&2")
    drawn = server.result("run_python_code", sandbox_id=sandbox, code_block=FIGURE)
    assert len(links_of(long)) == (2 if linked else 0)
    assert len(links_of(drawn)) == (1 if linked else 0)
    assert long["content"][-1]["type"] == ("resource_link" if linked else "text")


def test_a_configuration_file_asks_for_links(start, sandbox, tmp_path):  # noqa: F811
    (tmp_path / "config.json").write_text('{"links": true}')
    server = start("--config", "config.json")
    result = server.result("write_file", sandbox_id=sandbox, path=f"{tmp_path}/f", content="x")
    check(links_of(result)[0], f"{tmp_path}/f", 1, None)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_cut_output_is_linked(start, sandbox, version):  # noqa: F811
    """The link comes after the text, where the revision has links; the text always says where the
    whole output is."""
    server = start("--links", "--output-bytes=1000", version=version)
    result = server.result("run_command", sandbox_id=sandbox, command="seq 5000; seq 4000 >&2")
    text, *links = result["content"]
    assert text["type"] == "text" and text["text"].count("all of it is in /tmp/cubby-") == 2
    assert len(links) == (0 if version < "2025-06-18" else 2)
    for link, last in zip(links, (5000, 4000)):
        want = "".join(f"{i}\n" for i in range(1, last + 1))
        path = link["uri"].removeprefix(f"sandbox://{sandbox}")
        check(link, path, len(want), "text/plain")
        assert pathlib.Path(path).read_text() == want
        pathlib.Path(path).unlink()


def test_whole_output_is_not_linked(start, sandbox):  # noqa: F811
    result = start("--links").result("run_command", sandbox_id=sandbox, command="seq 50")
    assert [block["type"] for block in result["content"]] == ["text"]


def test_figures_are_linked(start, sandbox, kernel):  # noqa: F811
    result = start("--links").result("run_python_code", sandbox_id=sandbox, code_block=FIGURE)
    text, image, link = result["content"]
    (figure,) = result["structuredContent"]["figures"]
    data = pathlib.Path(figure["path"]).read_bytes()
    assert data == base64.b64decode(image["data"]) and text["type"] == "text"
    check(link, figure["path"], len(data), "image/png")
    assert figure["path"] in text_of(result)
    pathlib.Path(figure["path"]).unlink()
