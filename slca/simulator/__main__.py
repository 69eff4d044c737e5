"""Simulated tools on the command line.

    python -m slca.simulator try --tools tools.json --call '{"name": "get_order", "arguments": {"order_id": "A-1"}}'
    python -m slca.simulator serve --tools tools.json [--port 8765 | --mcp]
    python -m slca.simulator stats --cache cache.sqlite | --run runs/tiny/<run>
    python -m slca.simulator record --chats chats.jsonl --out calls.jsonl

``--tools`` takes OpenAI tools, an MCP tool list, or an OpenAPI 3 document. Any field of ``SimulatorConfig``
(slca/simulator/options.py) is an option: ``--backend llm``, ``--cache cache.sqlite``, ``--faults '{timeout: 0.1}'``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from slca.config_load import ConfigError, from_dict
from slca.simulator.cache import Cache
from slca.simulator.http_server import HTTPServer
from slca.simulator.mcp import MCPServer
from slca.simulator.metrics import lines
from slca.simulator.options import SimulatorConfig
from slca.simulator.service import Service
from slca.simulator.simulator import BackendFailed, Simulator
from slca.simulator.tool_files import ToolFileError, chat_recordings, load_tools


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args) or 0)
    except (ToolFileError, ConfigError, BackendFailed, ValueError, OSError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m slca.simulator", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    attempt = commands.add_parser("try", help="answer calls; without --call, list the tools and what was read into them")
    attempt.add_argument("--call", action="append", default=[], metavar="JSON",
                         help='{"name": ..., "arguments": {...}}; several share one state')  # fmt: skip
    attempt.set_defaults(run=_try)
    serve = commands.add_parser("serve", help="serve the tools over HTTP on loopback, or with --mcp over stdio")
    serve.add_argument("--mcp", action="store_true", help="MCP over stdin and stdout")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    serve.add_argument("--port", type=int, default=8765, choices=range(65536), metavar="PORT")
    serve.set_defaults(run=_serve)
    for command in (attempt, serve):
        command.add_argument("--tools", required=True, metavar="FILE", help="OpenAI tools, MCP tool list, OpenAPI 3")
        command.add_argument("--answer-seed", type=int, default=0, help="another seed, other answers")
        group = command.add_argument_group("how the tools answer", "fields of SimulatorConfig, explained there")
        standard = dataclasses.asdict(SimulatorConfig())
        for name, value in standard.items():
            flag = "--" + name.replace("_", "-")
            group.add_argument(flag, dest=f"set_{name}", metavar="VALUE", help=f"default {value!r}".replace("%", "%%"))
    stats = commands.add_parser("stats", help="what a cache holds, or what the simulator of a run did")
    which = stats.add_mutually_exclusive_group(required=True)
    which.add_argument("--cache", metavar="FILE")
    which.add_argument("--run", dest="folder", metavar="FOLDER")
    stats.set_defaults(run=_stats)
    record = commands.add_parser("record", help="take the calls and their answers out of recorded chats, to be replayed")
    record.add_argument("--chats", required=True, metavar="FILE", help="JSONL with messages, such as a file of tasks")
    record.add_argument("--out", required=True, metavar="FILE", help="JSONL for --recordings")
    record.set_defaults(run=_record)
    return parser


def _service(args: argparse.Namespace) -> Service:
    given = {k.removeprefix("set_"): v for k, v in vars(args).items() if k.startswith("set_") and v is not None}
    texts = {f.name for f in dataclasses.fields(SimulatorConfig) if f.type == "str"}
    values: dict[str, Any] = {"check_ids": False}  # who tries a tool by hand names ids that nobody returned
    for key, text in given.items():
        try:
            values[key] = text if key in texts else yaml.safe_load(text)
        except yaml.YAMLError as err:
            raise ValueError(f"--{key.replace('_', '-')}: cannot read {text!r} ({str(err).splitlines()[0]})") from err
    config = from_dict({"simulator": values}, "command line").simulator
    return Service(Simulator(config), load_tools(args.tools), args.answer_seed)


def _try(args: argparse.Namespace) -> int:
    service = _service(args)
    if not args.call:
        for tool in service.toolset.values():
            kind = "inferred" if tool.inferred else "given"
            print(f"{tool.name} ({tool.effect}, response schema {kind}) -> {json.dumps(tool.returns)}")
            for note in tool.notes:
                print(f"  note: {note}")
    failed = False
    for number, text in enumerate(args.call, 1):
        try:
            call = json.loads(text)
        except (ValueError, RecursionError) as err:
            raise ValueError(f"--call number {number} is not JSON ({err})") from err
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise ValueError(f'--call number {number} must be {{"name": ..., "arguments": {{...}}}}')
        response = service.call("try", call["name"], call.get("arguments", {}))
        print(response.content)
        print(f"  from {response.source}" + "".join(f"; {note}" for note in response.notes), file=sys.stderr)
        failed = failed or not response.ok
    return 2 if failed else 0


def _serve(args: argparse.Namespace) -> None:
    service = _service(args)
    try:
        if args.mcp:
            print(f"{len(service.toolset)} tools over MCP on stdin and stdout", file=sys.stderr)
            MCPServer(service).run(sys.stdin.buffer, sys.stdout)
        else:
            with HTTPServer(service, args.host, args.port) as server:
                host = f"[{args.host}]" if ":" in args.host else args.host
                where = f"http://{host}:{server.server_port}"
                print(f"{len(service.toolset)} tools at {where} (page: {where}/); Ctrl-C ends it", flush=True)
                server.serve_forever()
    finally:
        print("\n".join(lines(service.stats())), file=sys.stderr)


def _stats(args: argparse.Namespace) -> None:
    if args.cache:
        if not Path(args.cache).is_file():
            raise ValueError(f"{args.cache}: no such file")
        cache = Cache(args.cache)
        print(f"{args.cache}: {len(cache)} answers, {Path(args.cache).stat().st_size / 1e6:.1f} MB")
        for origin, n in cache.by_origin().items():
            print(f"  {origin}: {n}")
        return
    manifest = Path(args.folder) / "manifest.json"
    try:
        found: Any = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise ValueError(f"{manifest}: cannot be read ({err})") from err
    for key in ("summary", "simulator"):
        found = found.get(key) if isinstance(found, dict) else None
    try:
        text = "\n".join(lines(found))
    except (KeyError, TypeError):
        raise ValueError(f"{manifest}: the run is not finished, or made before simulators kept count") from None
    print(text)


def _record(args: argparse.Namespace) -> None:
    rows = [{"tool": r.tool, "arguments": r.arguments, "response": r.response} for r in chat_recordings(args.chats)]
    if not rows:
        raise ValueError(f"{args.chats}: no call in it has an answer")
    partial = Path(args.out + ".partial")
    partial.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
    partial.replace(args.out)
    print(f"{args.out}: {len(rows)} recorded calls of {len({r['tool'] for r in rows})} tools")


if __name__ == "__main__":
    sys.exit(main())
