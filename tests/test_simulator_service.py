"""The simulator for its users: tool files, the command line, the HTTP and the MCP server."""

import http.client
import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.simulator.__main__ import main
from slca.simulator.http_server import HTTPServer
from slca.simulator.mcp import MCPServer
from slca.simulator.options import SimulatorConfig
from slca.simulator.service import Service
from slca.simulator.simulator import Simulator
from slca.simulator.tool_files import ToolFileError, load_tools
from slca.tasks.generate import generate
from slca.tasks.io import save_jsonl

TEXT = {"type": "string"}


def obj(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


OPENAI = [
    {"type": "function", "function": {"name": "create_order", "parameters": obj(["item"], item=TEXT)}},
    {"type": "function", "function": {"name": "get_order", "parameters": obj(["order_id"], order_id=TEXT)}},
    {"type": "function", "function": {"name": "delete_order", "parameters": obj(["order_id"], order_id=TEXT)}},
]
ORDER = obj(["order_id", "item"], order_id={**TEXT, "x-id": "ORD"}, item={**TEXT, "x-echo": "item"})
RETURNS = {"create_order": ORDER, "get_order": ORDER, "delete_order": obj(["deleted"], deleted={"type": "boolean"})}
OPENAPI = {
    "openapi": "3.0.3",
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "get": {
                "operationId": "showPet",
                "summary": "One pet.",
                "parameters": [{"name": "X-Key", "in": "header", "schema": TEXT}],
                "responses": {200: {"$ref": "#/components/responses/Pet"}, "404": {"description": "none"}},
            },
            "delete": {"responses": {"204": {"description": "gone"}}},
        },
        "/pets": {
            "post": {
                "operationId": "newPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
                "responses": {"201": {"$ref": "#/components/responses/Pet"}},
            }
        },
        "/pets/search": {"post": {"operationId": "searchPets", "requestBody": {"content": {"application/json": {
            "schema": {"type": "array", "items": TEXT}}}}}},
    },
    "components": {
        "schemas": {"Pet": obj(["name"], name=TEXT, friend={"$ref": "#/components/schemas/Pet"},
                               tag={"type": "string", "nullable": True})},
        "responses": {"Pet": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def write(folder, document, name="tools.json"):
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


# -- tool files ----------------------------------------------------------------------------------------------------


def test_lists_of_tools_in_every_common_form(folder):
    bare = {"name": "f", "description": "d", "parameters": obj(["a"], a=TEXT)}
    mcp = {"name": "f", "description": "d", "inputSchema": bare["parameters"], "annotations": {"readOnlyHint": True}}
    forms = [
        [bare], {"tools": [{"type": "function", "function": bare}]}, {"functions": [bare]}, [{"type": "function", **bare}],
        {"jsonrpc": "2.0", "result": {"tools": [mcp]}},
        [{"name": "f", "description": "d", "input_schema": mcp["inputSchema"]}],
    ]  # fmt: skip
    for form in forms:
        tool = load_tools(write(folder, form))["f"]
        assert tool.parameters == bare["parameters"] and tool.description == "d" and tool.inferred and tool.effect == "read"
    output = {**mcp, "outputSchema": obj(["x"], x=TEXT)}
    assert load_tools(write(folder, [output]))["f"].returns == output["outputSchema"]
    given_ = {"tools": [bare], "returns": {"f": obj(["y"], y=TEXT)}}
    assert load_tools(write(folder, given_))["f"].returns == given_["returns"]["f"]


@pytest.mark.parametrize("name", ["api.json", "api.yaml"])
def test_an_openapi_document(folder, name):
    tools = load_tools(write(folder, OPENAPI, name))  # JSON is YAML too
    assert list(tools) == ["showPet", "delete_pets_petId", "newPet", "searchPets"]
    assert [t.effect for t in tools.values()] == ["read", "delete", "create", "read"]
    assert tools["showPet"].parameters["required"] == ["petId"] and "X-Key" not in tools["showPet"].parameters["properties"]
    assert tools["newPet"].parameters["required"] == ["name"]
    assert set(tools["searchPets"].parameters["properties"]) == {"body"}
    assert not tools["showPet"].inferred and tools["delete_pets_petId"].inferred
    episode = Simulator().episode(tools)
    assert "name" in episode.call("newPet", {"name": "Rex", "friend": {"name": "Ada"}}).value
    assert episode.call("newPet", {"name": "Rex", "friend": {"age": 3}}).code is not None


@pytest.mark.parametrize("document, message", [
    ("{", "not JSON"), ([], "no tools"), ({"a": 1}, "OpenAPI 3 document is expected"), ([{"x": 1}], r"tools\[0\].*name"),
    ([OPENAI[0], OPENAI[0]], "given twice"), ({"swagger": "2.0"}, "convert Swagger 2"),
    ({"openapi": "3.1.0", "paths": {}}, "no operations"), ([{"name": "f", "parameters": {"type": "nonsense"}}], "'f'"),
    ({"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "other.yaml#/x"}]}}}},
     r"paths./a.get.parameters\[0\]"),
    ({"openapi": "3.1.0", "paths": {"/a": {"$ref": "#/paths/~1a"}}}, "circle"),
])  # fmt: skip
def test_a_file_without_tools_is_refused_with_its_name_and_the_place(folder, document, message):
    path = write(folder, document)
    with pytest.raises(ToolFileError, match=message) as found:
        load_tools(path)
    assert path in str(found.value)


def test_a_missing_file_is_refused(folder):
    with pytest.raises(ToolFileError, match="cannot be read"):
        load_tools(folder / "none.json")


# -- command line --------------------------------------------------------------------------------------------------


def test_try_answers_calls_in_one_episode(folder, capsys):
    tools = write(folder, {"tools": OPENAI, "returns": RETURNS})
    assert main(["try", "--tools", tools]) == 0
    assert "create_order (create, response schema given)" in capsys.readouterr().out
    assert main(["try", "--tools", tools, "--call", '{"name": "create_order", "arguments": {"item": "tea"}}']) == 0
    order = json.loads(capsys.readouterr().out)
    read = json.dumps({"name": "get_order", "arguments": {"order_id": order["order_id"]}})
    assert main(["try", "--tools", tools, "--call", read]) == 0  # by hand any id will do, unless told otherwise
    capsys.readouterr()
    assert main(["try", "--tools", tools, "--call", read, "--check-ids", "true"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "not_found"
    create = '{"name": "create_order", "arguments": {"item": "tea"}}'
    assert main(["try", "--tools", tools, "--call", create, "--call", read]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1])["item"] == "tea"


@pytest.mark.parametrize("options, message", [
    (["--call", "{"], "--call number 1 is not JSON"), (["--call", "{}"], "must be {"),
    (["--backend", "x"], "simulator.backend"),
    (["--faults", "{timeout: 2}"], "0..1"), (["--faults", "{timeout: "], "--faults: cannot read"),
    (["--timeout", "soon"], "simulator.timeout"), (["--cache", "/"], "error"),
])  # fmt: skip
def test_bad_options_are_named_without_a_trace(folder, capsys, options, message):
    assert main(["try", "--tools", write(folder, OPENAI), *options]) == 1
    assert message in capsys.readouterr().err


def test_record_takes_calls_out_of_chats_and_try_replays_them(folder, capsys):
    calls = [{"id": "1", "function": {"name": "get_order", "arguments": '{"order_id": "A-7"}'}}]
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "1", "content": '{"state": "lost"}'}]  # fmt: skip
    rows = [{"messages": chat}, {"messages": json.dumps(chat)}]
    chats = write(folder, "".join(json.dumps(row) + "\n" for row in rows), "c.jsonl")
    out = str(folder / "calls.jsonl")
    assert main(["record", "--chats", chats, "--out", out]) == 0
    assert "2 recorded calls of 1 tools" in capsys.readouterr().out
    call = '{"name": "get_order", "arguments": {"order_id": "A-7"}}'
    assert main(["try", "--tools", write(folder, OPENAI), "--recordings", out, "--call", call]) == 0
    assert json.loads(capsys.readouterr().out) == {"state": "lost"}
    assert main(["record", "--chats", write(folder, '{"messages": 3}\n', "bad.jsonl"), "--out", out]) == 1
    assert "bad.jsonl, line 1" in capsys.readouterr().err
    save_jsonl(generate(2, "train", 1), folder / "tasks.jsonl")
    assert main(["record", "--chats", str(folder / "tasks.jsonl"), "--out", out]) == 1  # no answers in there
    assert "no call in it has an answer" in capsys.readouterr().err


def test_stats_of_a_cache_and_of_a_run(folder, capsys):
    cache, tools = str(folder / "cache.sqlite"), write(folder, OPENAI)
    call = '{"name": "get_order", "arguments": {"order_id": "A-7"}}'
    assert main(["try", "--tools", tools, "--cache", cache, "--call", call]) == 0
    capsys.readouterr()
    assert main(["stats", "--cache", cache]) == 0
    assert "1 answers" in (out := capsys.readouterr().out) and "schema: 1" in out
    assert main(["stats", "--cache", str(folder / "none")]) == 1
    summary = {"simulator": Simulator().metrics.summary()}
    write(folder, {"summary": summary}, "manifest.json")
    assert main(["stats", "--run", str(folder)]) == 0
    assert "simulator: 0 calls" in capsys.readouterr().out
    for broken in ({}, [], {"summary": "simulator"}, {"summary": {"simulator": 5}}, {"summary": {"simulator": {}}}):
        write(folder, broken, "manifest.json")
        assert main(["stats", "--run", str(folder)]) == 1
        assert "not finished" in capsys.readouterr().err


REST = {
    "tools": [
        {"name": "create_order", "parameters": obj(item=TEXT, qty={"type": "integer"})},
        {"name": "update_order", "parameters": obj(order_id=TEXT, qty={"type": "integer"})},
        {"name": "get_order", "parameters": obj(order_id=TEXT)},
        {"name": "delete_order", "parameters": obj(order_id=TEXT)},
        {"name": "list_orders", "parameters": obj()},
    ],
    "returns": {},
}
PLAIN = obj(order_id=TEXT, item=TEXT, qty={"type": "integer"})
REST["returns"] = dict.fromkeys(("create_order", "update_order", "get_order"), PLAIN)
REST["returns"]["list_orders"] = {"type": "array", "items": PLAIN}


def test_plain_response_schemas_are_enough_for_a_consistent_episode(folder):
    """No annotation of ours: what was given is told back, updates stick, deleted things leave lists."""
    episode = Simulator().episode(load_tools(write(folder, REST)))

    def ask(name, **arguments):
        response = episode.call(name, arguments)
        assert response.code in (None, "not_found"), response.content
        return response.value

    order = ask("create_order", item="cup", qty=2)
    mine = order["order_id"]
    assert order == {"order_id": mine, "item": "cup", "qty": 2}
    assert ask("get_order", order_id=mine) == order
    assert ask("update_order", order_id=mine, qty=7) == {**order, "qty": 7}
    assert ask("get_order", order_id=mine) == {**order, "qty": 7}
    assert {**order, "qty": 7} in ask("list_orders")
    twin = ask("create_order", item="cup", qty=2)
    assert twin["order_id"] != mine and twin["item"] == "cup"
    ask("delete_order", order_id=mine)
    assert ask("get_order", order_id=mine)["error"] == "not_found"
    orders = [o["order_id"] for o in ask("list_orders")]
    assert mine not in orders and twin["order_id"] in orders


@pytest.mark.parametrize("schema", [
    {"type": "integer", "enum": ["1", "2"]}, {"type": "string", "format": "date", "maxLength": 5},
    obj(["a"], a={"type": "array", "items": {"enum": [1, 2]}, "minItems": 5, "uniqueItems": True}),
    obj(["a"], a={"type": "array", "minItems": 10**9}),
])  # fmt: skip
def test_a_response_schema_that_nothing_fulfils_is_refused_at_load(folder, schema):
    with pytest.raises(ToolFileError, match=r"tools.json: .*'f', response schema|response schema at"):
        load_tools(write(folder, {"tools": [{"name": "f", "parameters": {}}], "returns": {"f": schema}}))


@pytest.mark.parametrize("schema, arguments", [
    ({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2}, {}),
    (obj(["a"], a={"type": "integer", "x-echo": "a"}), {"a": "zz"}),
    (obj(["a"], a={"type": "number", "anyOf": [TEXT, {"type": "number"}]}), {}),
])  # fmt: skip
def test_answers_fit_where_the_first_thought_would_not(folder, schema, arguments):
    tools = load_tools(write(folder, {"tools": [{"name": "f", "parameters": obj(a=TEXT)}], "returns": {"f": schema}}))
    response = Simulator().episode(tools).call("f", arguments)
    assert response.ok and tools["f"].fits(response.value)


def test_hostile_schemas_and_patterns_end_in_time(folder):
    defs = {f"d{i}": obj(**{k: {"$ref": f"#/$defs/d{i + 1}"} for k in "abc"}) for i in range(13)} | {"d13": TEXT}
    bomb = {"$ref": "#/$defs/d0", "$defs": defs}
    with pytest.raises(ToolFileError, match="over 20000 places"):
        load_tools(write(folder, {"tools": [{"name": "f", "parameters": {}}], "returns": {"f": bomb}}))
    slow = {"name": "f", "parameters": obj(["a"], a={"type": "string", "pattern": r"^(\w+\s?)*$"})}
    response = Simulator().episode(load_tools(write(folder, [slow]))).call("f", {"a": "word " * 30 + "!"})
    assert not response.ok


@pytest.mark.parametrize("change", [
    lambda d: d["paths"]["/pets"]["post"]["requestBody"]["content"].update({5: {}}),
    lambda d: d["components"]["schemas"]["Pet"].update(required=True),
    lambda d: d["paths"]["/pets"]["post"].update(parameters=5),
    lambda d: d["components"]["schemas"]["Pet"]["properties"]["tag"].update(default="2024-01-01"),
])  # fmt: skip
def test_odd_openapi_documents_are_read(folder, change):
    document = json.loads(json.dumps(OPENAPI))
    change(document)
    text = yaml.safe_dump(document).replace("'2024-01-01'", "2024-01-01")  # as people write it: a YAML date
    assert "newPet" in load_tools(write(folder, text, "api.yaml"))


def test_names_with_slashes_are_found(folder):
    text = json.dumps(OPENAPI).replace("schemas/Pet", "schemas/My~1Pet").replace('"Pet": {"type"', '"My/Pet": {"type"')
    assert "name" in load_tools(write(folder, text))["showPet"].returns["properties"]


# -- HTTP ----------------------------------------------------------------------------------------------------------


@contextmanager
def served(folder, **config):
    tools = load_tools(write(folder, {"tools": OPENAI, "returns": RETURNS}))
    server = HTTPServer(Service(Simulator(SimulatorConfig(**config)), tools))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def ask(server, method, path, body=None, kind="application/json", **headers):
    """(status, decoded body, headers)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    text = body if isinstance(body, str | None) else json.dumps(body)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    connection.request(method, path, text, {"Content-Type": kind, **headers})
    response = connection.getresponse()
    data = response.read().decode()
    connection.close()
    return response.status, json.loads(data) if data[:1] in "[{" and data else data, dict(response.headers)


def test_http_calls_keep_the_state_of_their_episode(folder):
    with served(folder) as server:
        status, order, headers = ask(server, "POST", "/tools/create_order", {"item": "tea"}, X_Episode="a")
        assert status == 200 and headers["X-Source"] == "schema"
        read = {"order_id": order["order_id"]}
        assert ask(server, "POST", "/tools/get_order", read, X_Episode="a")[1]["item"] == "tea"
        assert ask(server, "POST", "/tools/get_order", read, X_Episode="b")[0] == 404
        assert ask(server, "POST", "/tools/delete_order", read, X_Episode="a")[0] == 200
        assert ask(server, "POST", "/tools/get_order", read, X_Episode="a")[0] == 404
        name = ask(server, "POST", "/episodes", {})[1]["episode"]
        assert ask(server, "DELETE", f"/episodes/{name}")[0] == 200 and ask(server, "DELETE", f"/episodes/{name}")[0] == 404


def test_http_says_what_is_wrong(folder):
    with served(folder) as server:
        assert ask(server, "POST", "/tools/creat_order", {})[1]["message"].startswith("no tool creat_order (create_order")
        assert ask(server, "POST", "/tools/create_order", {})[::2][0] == 422
        assert ask(server, "POST", "/tools/create_order", "{")[0] == 400
        assert ask(server, "POST", "/tools/create_order", "[" * 100_000)[0] == 400
        assert ask(server, "POST", "/tools/create_order", "[]")[0] == 422
        assert ask(server, "POST", "/elsewhere", {})[0] == 404 and ask(server, "GET", "/elsewhere")[0] == 404
        assert ask(server, "POST", "/tools/create_order", "x" * 1_000_001)[0] == 413
        # a page in somebody's browser must not reach the tools
        assert ask(server, "POST", "/tools/create_order", '{"item": "x"}', kind="text/plain")[0] == 415
        assert ask(server, "POST", "/tools/create_order", {"item": "x"}, Host="evil.example")[0] == 403
        assert ask(server, "POST", "/tools/create_order", {"item": "x"}, Host="[::1")[0] == 400
        assert ask(server, "POST", "/tools/create_order", {"item": "x"}, Transfer_Encoding="chunked")[0] == 411
    with served(folder, faults={"server_error": 1.0}) as server:
        assert ask(server, "POST", "/tools/create_order", {"item": "x"})[0] == 500


def test_http_describes_itself(folder):
    with served(folder) as server:
        document = ask(server, "GET", "/openapi.json")[1]
        assert [t["function"]["name"] for t in ask(server, "GET", "/tools")[1]] == list(RETURNS)
        assert ask(server, "GET", "/stats")[1]["calls"] == 0
        status, page, headers = ask(server, "GET", "/")
        assert status == 200 and "openapi.json" in page and headers["Content-Type"].startswith("text/html")
    again = load_tools(write(folder, document, "own.json"))  # the document is one that load_tools reads
    assert list(again) == list(RETURNS) and again["get_order"].parameters == OPENAI[1]["function"]["parameters"]


def test_many_clients_at_once(folder):
    with served(folder) as server:
        found = []

        def client(n):
            order = ask(server, "POST", "/tools/create_order", {"item": f"i{n}"}, X_Episode=f"e{n}")[1]
            found.append((n, ask(server, "POST", "/tools/get_order", {"order_id": order["order_id"]}, X_Episode=f"e{n}")[1]))

        threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted((n, o["item"]) for n, o in found) == [(n, f"i{n}") for n in range(12)]


def test_sessions_are_bounded(folder, monkeypatch):
    monkeypatch.setattr("slca.simulator.service._SESSIONS", 3)
    service = Service(Simulator(), load_tools(write(folder, OPENAI)))
    for name in "abcd":
        service.open(name)
    assert not service.close("a") and service.close("d")


# -- MCP -----------------------------------------------------------------------------------------------------------


def mcp(folder):
    return MCPServer(Service(Simulator(), load_tools(write(folder, {"tools": OPENAI, "returns": RETURNS}))))


def send(server, method, params=None, identity=1):
    message = {"jsonrpc": "2.0", "id": identity, "method": method, **({} if params is None else {"params": params})}
    answer = server.answer_line(json.dumps(message))
    return json.loads(answer)


def test_mcp_conversation(folder):
    server = mcp(folder)
    begun = send(server, "initialize", {"protocolVersion": "2025-03-26"})["result"]
    assert begun["protocolVersion"] == "2025-03-26" and "tools" in begun["capabilities"]
    assert send(server, "initialize", {"protocolVersion": "1999"})["result"]["protocolVersion"] == "2025-06-18"
    assert server.answer_line('{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
    assert send(server, "ping")["result"] == {}
    tools = send(server, "tools/list")["result"]["tools"]
    assert [t["name"] for t in tools] == list(RETURNS) and tools[0]["inputSchema"]["type"] == "object"
    done = send(server, "tools/call", {"name": "create_order", "arguments": {"item": "tea"}}, "x")
    assert done["id"] == "x" and not done["result"]["isError"]
    order = done["result"]["structuredContent"]
    assert json.loads(done["result"]["content"][0]["text"]) == order
    read = {"name": "get_order", "arguments": {"order_id": order["order_id"]}}
    assert send(server, "tools/call", read)["result"]["structuredContent"]["item"] == "tea"
    wrong = send(server, "tools/call", {"name": "get_order"})["result"]
    assert wrong["isError"] and "missing_argument" in wrong["content"][0]["text"]


def test_mcp_refuses_by_the_book(folder):
    server = mcp(folder)
    for line, code in (("{", -32700), (b"\xff{}", -32700), ("3", -32600), ('{"id": 1}', -32600), ("[" * 50_000, -32700)):
        assert json.loads(server.answer_line(line))["error"]["code"] == code
    assert send(server, "resources/list")["error"]["code"] == -32601
    assert send(server, "tools/call", {"name": "none"})["error"]["code"] == -32602
    assert send(server, "tools/call", [1])["error"]["code"] == -32602
    both = server.answer_line(json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"method": "x"}]))
    assert json.loads(both) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert server.answer_line('{"jsonrpc": "2.0", "id": 1, "result": {}}') is None


SCALARS = st.none() | st.booleans() | st.integers() | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "x"]),
                       JSON | st.sampled_from(["tools/call", "initialize", "tools/list"])))  # fmt: skip
def test_mcp_never_crashes(tmp_path_factory, message):
    server = mcp(tmp_path_factory.getbasetemp())
    answer = server.answer_line(json.dumps(message))
    assert answer is None or json.loads(answer)


def test_mcp_over_pipes_writes_nothing_but_the_protocol(folder):
    lines = ['{"jsonrpc": "2.0", "id": 1, "method": "ping"}', "", '{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}']
    sink = io.StringIO()
    mcp(folder).run([line + "\n" for line in lines], sink)
    assert [json.loads(line)["id"] for line in sink.getvalue().splitlines()] == [1, 2]
    command = [sys.executable, "-m", "slca.simulator", "serve", "--mcp", "--tools", write(folder, OPENAI)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=120, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert "3 tools over MCP" in done.stderr


def test_the_server_command_listens_on_loopback_and_ends_cleanly(folder):
    command = [sys.executable, "-m", "slca.simulator", "serve", "--port", "0", "--tools", write(folder, OPENAI)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})  # fmt: skip
    try:
        line = process.stdout.readline()
        assert "3 tools at http://127.0.0.1:" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.communicate()
