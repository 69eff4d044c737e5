"""Simulated tools over HTTP, on loopback unless told otherwise.

    POST /tools/<name>   arguments as a JSON object; header X-Episode names the session ("default" without one)
    POST /episodes       a fresh session: {"episode": name}        DELETE /episodes/<name>   forget it
    GET  /tools  /openapi.json  /stats  /                          (the last is a page for people)
"""

from __future__ import annotations

import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from slca.simulator.response import dumps
from slca.simulator.service import STATUS, Service
from slca.simulator.simulator import BackendFailed

_LARGEST = 1_000_000  # bytes of a request's body
_LOCAL = ("127.0.0.1", "localhost", "::1")


class HTTPServer(ThreadingHTTPServer):
    """Args: service: what answers.  host, port: where to listen; port 0 takes a free one (see ``server_port``)."""

    daemon_threads = True

    def __init__(self, service: Service, host: str = "127.0.0.1", port: int = 0) -> None:
        self.service = service
        self.local = host in _LOCAL
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)


    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave early are no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: HTTPServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds that a silent client keeps its thread

    def log_message(self, *_: Any) -> None:
        """Requests are counted, not logged."""

    def do_GET(self) -> None:
        service = self.server.service
        pages: dict[str, Any] = {"/tools": service.openai, "/openapi.json": service.openapi, "/stats": service.stats}
        if not self._trusted():
            return
        path = urlsplit(self.path).path
        if path == "/":
            self._send(200, _PAGE, "text/html; charset=utf-8")
        elif path in pages:
            self._send(200, json.dumps(pages[path](), ensure_ascii=False))
        else:
            self._error(404, "not_found", f"nothing at {path[:80]}")

    def do_POST(self) -> None:
        if not self._trusted() or (data := self._body()) is None:
            return
        path = urlsplit(self.path).path
        if path == "/episodes":
            self._send(200, dumps({"episode": self.server.service.open()}))
            return
        if not path.startswith("/tools/"):
            self._error(404, "not_found", f"nothing at {path[:80]}; POST to /tools/<name>")
            return
        try:
            arguments = json.loads(data or b"{}")
        except (ValueError, RecursionError) as err:
            self._error(400, "not_json", f"the body is not JSON ({err})")
            return
        session = self.headers.get("X-Episode") or "default"
        try:
            response = self.server.service.call(session, unquote(path.removeprefix("/tools/")), arguments)
        except BackendFailed as err:
            self._error(503, "backend_failed", str(err))
            return
        status = 200 if response.ok or (response.source == "fault" and response.value is None) else 422
        status = STATUS.get(response.code or "", status)
        notes = dumps(list(response.notes[:10]))[:1000]
        self._send(status, response.content, **{"X-Source": response.source, "X-Notes": notes})

    def do_DELETE(self) -> None:
        if not self._trusted():
            return
        path = urlsplit(self.path).path
        if path.startswith("/episodes/") and self.server.service.close(unquote(path.removeprefix("/episodes/"))):
            self._send(200, "{}")
        else:
            self._error(404, "not_found", "no such episode")

    def _trusted(self) -> bool:
        """On loopback, only requests that mean this machine: a web page elsewhere must not reach it by a name of its own."""
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
            urlsplit(self.path)
        except ValueError:
            self._error(400, "bad_request", "neither Host nor path may look like that")
            return False
        if self.server.local and host not in _LOCAL:
            self._error(403, "forbidden", "this server answers to 127.0.0.1 and localhost only")
            return False
        return True

    def _body(self) -> bytes | None:
        """The request's body; None when it was refused."""
        kind = (self.headers.get("Content-Type") or "").partition(";")[0].strip()
        length = self.headers.get("Content-Length") or "0"
        if self.headers.get("Transfer-Encoding"):
            self._error(411, "no_length", "send the body whole, with a Content-Length")
        elif kind != "application/json":  # a foreign page cannot send this without being asked first
            self._error(415, "not_json", "set Content-Type: application/json")
        elif not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > _LARGEST:
            if length.isascii() and length.isdigit():
                self._drain(int(length[:9]))
            self._error(413, "too_large", f"give a Content-Length of at most {_LARGEST}")
        else:
            return self.rfile.read(int(length))
        return None

    def _drain(self, length: int) -> None:
        """Read on for a while: who is cut off while writing never sees the answer."""
        left = min(length, 8 * _LARGEST)
        while left > 0 and (chunk := self.rfile.read(min(left, 65536))):
            left -= len(chunk)

    def _error(self, status: int, code: str, message: str) -> None:
        self.close_connection = True  # a body may be left unread
        self._send(status, dumps({"error": code, "message": message}))

    def _send(self, status: int, text: str, kind: str = "application/json", **headers: str) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value.encode("ascii", "backslashreplace").decode())
        self.end_headers()
        self.wfile.write(data)


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Simulated tools</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
details { border-bottom: 1px solid #ddd; padding: .5rem 0 } summary { cursor: pointer }
textarea { width: 100%; height: 5rem; font: 14px monospace; box-sizing: border-box } pre { background: #f5f5f5;
padding: .6rem; overflow: auto; font-size: 14px } code { font-weight: 600 }
</style>
<h1>Simulated tools</h1>
<p id="about"></p><p>Machine-readable: <a href="openapi.json">openapi.json</a>, <a href="tools">tools</a>,
<a href="stats">stats</a>.</p><div id="tools"></div>
<script>
const make = (tag, text, parent) => {
  const e = document.createElement(tag); if (text) e.textContent = text; if (parent) parent.append(e); return e;
};
const sample = s => !s || typeof s !== "object" ? null : s.default !== undefined ? s.default : s.enum ? s.enum[0]
  : s.properties ? Object.fromEntries((s.required || []).map(k => [k, sample(s.properties[k])]))
  : { string: "text", integer: 1, number: 1.5, boolean: true, array: [] }[s.type] ?? {};
fetch("openapi.json").then(r => r.json()).then(doc => {
  document.getElementById("about").textContent = doc.info.description;
  for (const [path, item] of Object.entries(doc.paths)) {
    const op = item.post, schema = op.requestBody.content["application/json"].schema;
    const box = make("details", "", document.getElementById("tools")), head = make("summary", "", box);
    make("code", op.operationId, head); make("span", " " + (op.summary || ""), head);
    make("pre", JSON.stringify(schema, null, 1), box);
    const field = make("textarea", "", box), button = make("button", "Call", box), out = make("pre", "", box);
    field.value = JSON.stringify(sample(schema));
    button.onclick = () => fetch(path, { method: "POST", body: field.value,
      headers: { "Content-Type": "application/json", "X-Episode": "page" } })
      .then(async r => { out.textContent = r.status + " " + await r.text(); });
  }
});
</script></html>
"""
