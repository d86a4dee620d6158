# SPDX-License-Identifier: Apache-2.0
"""A scripted model on loopback, which speaks the real providers' wire formats.

One server answers OpenAI's chat completions and responses, Anthropic's messages and Gemini's
generateContent, streamed or not; model_openai.py, model_anthropic.py and model_gemini.py have the
formats. A request that the provider's API would refuse is refused with the provider's status and
is kept in `refused`.

A script is a generator. It yields a Call of a tool, is sent that call's Result as the model saw it,
and returns the final text. What a script expects and does not see is kept in `failures`.
"""

import http.server
import json
import re
import threading
import traceback
from dataclasses import dataclass, field

import model_anthropic
import model_gemini
import model_openai
from model_turn import BadRequest, Call, Final

WIRES = [
    (re.compile(r"/chat/completions$"), model_openai.Chat),
    (re.compile(r"/responses$"), model_openai.Responses),
    (re.compile(r"/messages$"), model_anthropic.Messages),
    (re.compile(r":(generateContent|streamGenerateContent)$"), model_gemini.Generate),
]
# Requests that clients send beside a conversation, and what they take as an answer.
BESIDE = [
    (re.compile(r"/count_tokens$"), {"input_tokens": 100}),
    (re.compile(r":countTokens$"), {"totalTokens": 100}),
    (re.compile(r"/models$"), {"object": "list", "data": [], "models": []}),
]


class Unexpected(AssertionError):
    """The model did not see what the script expects."""


def expect(result, *facts):
    """Fail unless the text of the result has each fact, and nothing that no model can read."""
    for fact in facts:
        if fact not in result.text:
            raise Unexpected(f"the result of {result.tool} has no {fact!r}: {result.text[:2000]!r}")
    for noise in ("sandbox://", "resource_link"):
        if noise in result.text:
            raise Unexpected(f"the result of {result.tool} has {noise!r}: {result.text[:2000]!r}")


@dataclass
class Model:
    """A script, the tools that it may call, and what came of it."""

    script: object
    replies: list = field(default_factory=list)  # by the number of results before it
    results: list = field(default_factory=list)  # as the model saw them
    turns: list = field(default_factory=list)
    refused: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    requests: list = field(default_factory=list)  # (path, body)
    final: str = None
    wanted: Call = None  # of a tool that the client makes known only when it is searched for
    lock: object = field(default_factory=threading.Lock)

    def reply(self, turn):
        """The reply to a conversation. The same conversation, sent again, gets the same reply."""
        with self.lock:
            if not turn.tools:
                return Final("Fix a bug")  # a title, a summary: a question beside the conversation
            self.turns.append(turn)
            number = len(turn.results)
            if number > len(self.replies):
                raise BadRequest(f"{number} results for {len(self.replies)} calls")
            if number == len(self.replies):
                self.replies.append(self.next(turn))
            return self.replies[number]

    def next(self, turn):
        try:
            call = self.wanted or self.next_of_script(turn)
            self.wanted = None
            if not turn.has(call.name) and turn.has("ToolSearch"):
                self.wanted = call
                if self.replies and self.replies[-1].name == "ToolSearch":
                    raise BadRequest(f"ToolSearch finds no {call.name}")
                call = Call("ToolSearch", {"query": call.name, "max_results": 5})
            return turn.full_call(call)
        except StopIteration as end:
            self.final = end.value
        except Exception as e:
            self.failures.append(f"{type(e).__name__}: {e}")
            self.final = f"FAILED: {e}"
        if turn.has("final_answer"):  # smolagents ends by a call
            return Call("final_answer", {"answer": self.final})
        return Final(self.final)

    def next_of_script(self, turn):
        if not self.replies:
            return next(self.script)
        result = turn.results[-1]
        result.tool = self.replies[-1].name
        result.images_so_far = turn.images
        self.results.append(result)
        return self.script.send(result)

    def check(self):
        """Fail unless the script came to its end, and each request was one that the API takes."""
        assert not self.refused, self.refused
        assert not self.failures, self.failures
        assert self.final is not None, f"the agent stopped after {self.results[-1:]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = None

    def log_message(self, *args):
        pass

    def read_body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return json.loads(data) if data else {}

    def send_json(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_events(self, events):
        """Server-sent events: (name or None, data)."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode())
        self.wfile.flush()

    def do_GET(self):
        self.send_json(*self.beside())

    def beside(self):
        path = self.path.split("?")[0]
        for pattern, answer in BESIDE:
            if pattern.search(path):
                return 200, answer
        return 404, {"error": {"message": f"the scripted model has no {path}"}}

    def do_POST(self):
        body = self.read_body()
        path = self.path.split("?")[0]
        self.model.requests.append((self.path, body))
        wire = next((wire for pattern, wire in WIRES if pattern.search(path)), None)
        if not wire:
            self.send_json(*self.beside())
            return
        request = wire(self.path, body)
        try:
            reply = self.model.reply(request.turn())
        except BadRequest as e:
            self.model.refused.append(f"{path}: {e}")
            self.send_json(400, request.error(str(e)))
            return
        except Exception as e:
            self.model.refused.append(f"{path}: the stub's own error: {traceback.format_exc()}")
            self.send_json(400, request.error(str(e)))
            return
        if request.streamed:
            self.send_events(request.events(reply))
        else:
            self.send_json(200, request.answer(reply))


class Stub:
    """The server of a Model. `url` has no path: each client adds its API's own."""

    def __init__(self, script):
        self.model = Model(script)
        handler = type("Bound", (Handler,), {"model": self.model})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()
