"""Tasks on the command line: check a file, write generated tasks, look at some.

    python -m slca.tasks validate my_tasks.jsonl
    python -m slca.tasks generate --n 1000 --split train --seed 1 --out tasks.jsonl
    python -m slca.tasks show --split test_unseen --n 5
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from slca.tasks.generate import MIX, SPLITS, generate
from slca.tasks.io import TaskError, doubts, load_jsonl, save_jsonl
from slca.tasks.task import Task


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slca.tasks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser("validate", help="check a JSONL file; names the line and field that is wrong")
    validate.add_argument("file")
    for name, text in (("generate", "write generated tasks"), ("show", "print tasks readably")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--n", type=int, default=1000 if name == "generate" else 3)
        command.add_argument("--split", choices=SPLITS, default="train")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--kinds", nargs="*", choices=list(MIX), default=None)
        if name == "generate":
            command.add_argument("--out", required=True)
        else:
            command.add_argument("--file", help="show this file's tasks in place of generated ones")
    args = parser.parse_args(argv)
    try:
        if args.command == "validate":
            tasks = load_jsonl(args.file)
            found = [doubt for task in tasks for doubt in doubts(task)]
            print(f"{args.file}: {len(tasks)} tasks, nothing wrong; {_kinds(tasks)}")
            if found:
                print(f"{len(found)} doubts, the first of them:", *found[:10], sep="\n  ")
        elif args.command == "generate":
            tasks = generate(args.n, args.split, args.seed, args.kinds)
            save_jsonl(tasks, args.out)
            print(f"{args.out}: {len(tasks)} tasks; {_kinds(tasks)}")
        else:
            tasks = load_jsonl(args.file) if args.file else generate(args.n, args.split, args.seed, args.kinds)
            for task in tasks[: args.n]:
                _show(task)
    except (TaskError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _kinds(tasks: list[Task]) -> str:
    return ", ".join(f"{kind} {n}" for kind, n in sorted(Counter(t.kind for t in tasks).items()))


def _show(task: Task) -> None:
    print(f"{task.id} ({task.kind})")
    for message in task.messages:
        print(f"  {message['role']}: {message.get('content')}")
    print(f"  tools: {', '.join(t['function']['name'] for t in task.tools)}")
    for s, step in enumerate(task.gold):
        for call in step:
            print(f"  gold {s + 1}: {call.name}({json.dumps(call.arguments, ensure_ascii=False)})")
    for fact in task.facts:
        print(f"  fact: {fact.path} = {json.dumps(fact.value, ensure_ascii=False)}")


if __name__ == "__main__":
    sys.exit(main())
