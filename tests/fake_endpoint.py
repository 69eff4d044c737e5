"""A chat-completions endpoint on loopback that answers by script, well or badly."""

import json
import socket
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint(ThreadingHTTPServer):
    """``script``: what becomes of the next requests, then ``rest`` for ever. ``requests`` holds (headers, body)."""

    daemon_threads = True

    def __init__(self, script=(), rest="ok", content='{"symbol": "A", "price": 1.5, "open": true}'):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.rest, self.content = list(script), rest, content
        self.requests, self.lock, self.most, self.now = [], threading.Lock(), 0, 0
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        pass  # clients that gave up

    def next(self):
        with self.lock:
            return self.script.pop(0) if self.script else self.rest


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append((dict(self.headers), body))
        getattr(self, f"act_{server.next()}")(body)

    def send(self, status, text, **headers):
        data = text.encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def completion(self, content):
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": 11, "completion_tokens": 7}
        return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    def act_ok(self, body):
        self.send(200, self.completion(self.server.content))

    def act_slow(self, body):
        """Counts how many wait at once."""
        with self.server.lock:
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        time.sleep(0.1)
        with self.server.lock:
            self.server.now -= 1
        self.act_ok(body)

    def act_hang(self, body):
        time.sleep(3)

    def act_drip(self, body):
        self.send_response(200)
        self.end_headers()
        for _ in range(30):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.1)

    def act_reset(self, body):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def act_limit(self, body):
        self.send(429, "slow down", Retry_After="2")

    def act_error(self, body):
        self.send(500, "<html>oops</html>")

    def act_half(self, body):
        self.send(200, self.completion(self.server.content)[:40])

    def act_prose(self, body):
        self.send(200, self.completion("I am sorry, but I cannot help with that."))

    def act_fenced(self, body):
        self.send(200, self.completion(f"Sure!\n```json\n{self.server.content}\n```"))

    def act_list(self, body):
        self.send(200, "[]")

    def act_empty(self, body):
        self.send(200, self.completion(None))

    def act_huge(self, body):
        self.send(200, self.completion("x" * 1_500_000))

    def act_key(self, body):
        self.send(401, json.dumps({"error": "no key"}))

    def act_plain(self, body):
        """Knows no json_schema, does know json_object."""
        form = body.get("response_format", {}).get("type")
        return self.send(400, "unknown response_format") if form == "json_schema" else self.act_ok(body)

    def act_none(self, body):
        """Knows no response format at all."""
        return self.send(400, "unknown field") if "response_format" in body else self.act_ok(body)


@contextmanager
def endpoint(*args, **kwargs):
    server = Endpoint(*args, **kwargs)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
