"""What keeps a random client of the service harmless, short and to the point.

A command that would be started is one of a few that do nothing to the machine. Names of processes and sessions that are
well-formed become names that exist, every other time. Times to wait become short, and of a stream that does not end only
what comes at once is read. What is malformed is sent as it is. Nothing here decides what a right answer is.
"""

import hashlib
import json
import os
import random
import re
import urllib.request

import requests.adapters
import schemathesis

SERVICE = os.environ["PROCYARD_URL"]
AUTHORIZATION = {"Authorization": "Bearer " + os.environ["PROCYARD_TOKEN"]}
SESSIONS = json.loads(os.environ["PROCYARD_SESSIONS"])

COMMANDS = ["true", "false", "cat", "sleep 1", "printf hello", "head -c 70000 /dev/zero", "no-such-command"]
HANDLE = re.compile(r"[A-Za-z0-9_-]{22}")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# Arguments that say how long something takes, with what is enough here, in their units.
TIMES = {"wait_ms": 200, "timeout_ms": 200, "yield_time_ms": 200, "quiet_ms": 50, "grace_ms": 200, "timeout": 5}

chance = random.Random(1)


# Everything that has existed.
seen = set()


def exists(name, path, field):
    """The name, or one of what there is now in its place, unless it is or was one itself."""
    request = urllib.request.Request(SERVICE + path, headers=AUTHORIZATION)
    with urllib.request.urlopen(request, timeout=10) as answer:
        names = [entry[field] for entry in next(iter(json.load(answer).values()))]
    seen.update(names)
    return name if name in seen or not names else chosen(name, names)


def chosen(name, choices):
    """One of the choices, the same for the same name, so that a case does the same when it is repeated."""
    return choices[hashlib.sha256(repr(name).encode()).digest()[0] % len(choices)]


def is_time(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def shorten(arguments):
    for name, most in TIMES.items():
        value = arguments.get(name)
        if is_time(value):
            arguments[name] = min(value, most)
        elif isinstance(value, str) and value.isascii() and value.isdigit() and int(value) <= 600_000:
            arguments[name] = str(min(int(value), most))


def tame(arguments):
    """A start, harmless."""
    shorten(arguments)
    if isinstance(arguments.get("command"), str) and arguments["command"].strip():
        arguments["command"] = chosen(arguments["command"], COMMANDS)
    argv = arguments.get("argv")
    if isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv) and argv[0]:
        arguments["argv"] = chosen(argv, COMMANDS).split()
    if isinstance(arguments.get("workdir"), str) and arguments["workdir"]:
        arguments["workdir"] = "."
    if isinstance(arguments.get("env"), dict):
        arguments["env"] = {name: value for name, value in arguments["env"].items() if name not in ("PATH", "LD_PRELOAD")}


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.path_parameters or {}
    process = path.get("process_id")
    if isinstance(process, str) and HANDLE.fullmatch(process) and chance.random() < 0.8:
        path["process_id"] = exists(process, "/v1/processes?limit=100", "process_id")
    session = path.get("session_id")
    if isinstance(session, str) and UUID.fullmatch(session) and SESSIONS and chance.random() < 0.5:
        path["session_id"] = exists(session, "/v1/sessions", "session_id")
    if isinstance(case.query, dict):
        shorten(case.query)
    body = case.body
    if isinstance(body, dict):
        if case.path == "/v1/mcp/invoke" and isinstance(body.get("arguments"), dict):
            tame(body["arguments"])
        elif case.path == "/v1/sessions" and SESSIONS and set(body) <= {"session_id"}:
            # Each new session has a process of its own.
            if not body or UUID.fullmatch(str(body["session_id"])):
                body["session_id"] = chosen(body, SESSIONS)
        else:
            tame(body)


whole = requests.adapters.HTTPAdapter.send


def begun(adapter, request, **kwargs):
    """A response, of which not more is read than comes within a moment where it is a stream that does not end."""
    response = whole(adapter, request, **{**kwargs, "stream": True})
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        # The connection too: nobody takes the rest of it from there.
        response.raw.close()
        response._content = b""
        response._content_consumed = True
    return response


requests.adapters.HTTPAdapter.send = begun
