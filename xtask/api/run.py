"""Tries the whole API with the token of a loop, then with the administrator's: `run.py URL ADMIN-TOKEN-FILE SECONDS`."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

url, token_file, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
here = pathlib.Path(__file__).resolve().parent
schemathesis = pathlib.Path(sys.executable).with_name("st")
administrator = pathlib.Path(token_file).read_text().strip()


def post(path, token, body):
    headers = {"Authorization": "Bearer " + token}
    request = urllib.request.Request(url + path, method="POST", headers=headers, data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def tried(name, token, sessions):
    """Whether every answer was right."""
    print(f"== the whole API, for {name} ==", flush=True)
    known = {"PROCYARD_URL": url, "PROCYARD_TOKEN": token, "PROCYARD_SESSIONS": json.dumps(sessions)}
    command = [schemathesis, "--config-file", here / "schemathesis.toml", "run", url + "/openapi.json"]
    command += ["--header", "Authorization: Bearer " + token, "--checks", "all"]
    command += ["--max-time", str(max(seconds // 2, 1))]
    environment = {**os.environ, **known, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=environment, cwd=here, stdin=subprocess.DEVNULL).returncode == 0


opened = [post("/v1/sessions", administrator, {}) for _ in range(3)]
loop = opened[0]["token"]
# There is something to read, to write to and to be told of from the beginning.
post("/v1/processes", loop, {"argv": ["printf", "hello"]})
post("/v1/processes", loop, {"argv": ["cat"], "stdin": True})
results = [
    tried("a loop", loop, []),
    tried("the administrator", administrator, [session["session_id"] for session in opened]),
]
sys.exit(0 if all(results) else 1)
