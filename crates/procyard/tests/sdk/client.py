"""Drives `procyard mcp` with the official MCP SDK, in both of its ways to open the protocol.

Called with the program and a directory to work in. Prints what it did; any failure is an exception, hence a non-zero
exit. The SDK itself holds each structured result against the output schema of its tool. Not a test of the SDK.
"""

import asyncio
import sys
from typing import Any, Literal

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim

TOOLS = {"Bash", "ProcessOutput", "ProcessInput", "ProcessStop", "ProcessList"}


class Task(types.Result):
    """What a call becomes that takes long."""

    result_type: Literal["task"]
    task_id: str
    status: str


class Got(types.Result):
    """The state of a task, and its result once it has one; empty as an acknowledgement."""

    status: str | None = None
    result: dict | None = None


class Tasks(ClientExtension):
    """Waits for the task that a call has become; the SDK has the extension's place, not its methods."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.created = asyncio.Event()

    def claims(self) -> list[ResultClaim]:
        return [ResultClaim(result_type="task", model=Task, resolve=self.finish)]

    async def finish(self, task: Task, context: Any) -> types.CallToolResult:
        assert task.status == "working", task
        self.created.set()
        while (got := await ask(context.session, "tasks/get", task.task_id)).status == "working":
            await asyncio.sleep(0.05)
        self.seen.append((task.task_id, got.status))
        empty = {"content": [{"type": "text", "text": got.status}], "isError": True}
        return types.CallToolResult.model_validate(got.result or empty)


async def ask(session: Any, method: str, task: str) -> Got:
    request = types.Request[dict[str, Any], str](method=method, params={"taskId": task})
    return await session.send_request(request, Got)


async def done(client: Client, tool: str, arguments: dict, **options) -> dict:
    """A call that is carried out, and its structured result."""
    result = await client.call_tool(tool, arguments, **options)
    assert not result.is_error, result
    assert result.content[0].text, result
    return result.structured_content


async def refused(client: Client, tool: str, arguments: dict) -> dict:
    """A call that cannot be carried out, and its error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    return result.structured_content["error"]


async def lists_tools(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS, tools
    for tool in tools:
        assert tool.description and tool.output_schema and tool.input_schema["type"] == "object", tool


async def runs_in_foreground(client: Client) -> None:
    ended = await done(client, "Bash", {"command": "echo out; echo err >&2; exit 3"})
    assert ended["status"] == "exited" and ended["exit_code"] == 3, ended
    assert sorted(ended["output"].splitlines()) == ["err", "out"], ended


async def tells_progress(client: Client) -> None:
    # The SDK swallows what goes wrong in the callback, so that only passes it on.
    reports = asyncio.Queue()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        await reports.put((progress, message))

    call = {"command": "echo underway; while ! [ -e go ]; do sleep 0.05; done; rm go; echo done"}
    running = asyncio.create_task(done(client, "Bash", call, progress_callback=progress))
    assert await reports.get() == (9, "underway")
    await done(client, "Bash", {"command": "touch go"})
    assert (await running)["output"] == "underway\ndone\n"


async def waits_for_a_background_process(client: Client) -> None:
    call = {"command": "echo one; read line; echo got $line; read end", "background": True, "stdin": True}
    started = await done(client, "Bash", call)
    handle = started["process_id"]
    assert started["status"] == "running", started
    wait = {"process_id": handle, "wait": "any", "until": "match", "pattern": "one", "timeout_ms": 30_000}
    first = await done(client, "ProcessOutput", wait)
    assert first["output"] == "one\n" and first["matched"]["text"] == "one", first
    await done(client, "ProcessInput", {"process_id": handle, "data": "two\n"})
    wait |= {"cursor": first["next_cursor"], "pattern": "got two"}
    assert (await done(client, "ProcessOutput", wait))["output"] == "got two\n"
    await done(client, "ProcessInput", {"process_id": handle, "eof": True})
    last = await done(client, "ProcessOutput", {"process_id": handle, "wait": "any", "until": "exit", "timeout_ms": 30_000})
    assert last["status"] == "exited", last


async def stops(client: Client) -> None:
    started = await done(client, "Bash", {"command": "sleep 1000", "background": True})
    stopped = await done(client, "ProcessStop", {"process_id": started["process_id"], "mode": "kill"})
    assert stopped["status"] == "killed" and stopped["tree_exited"] is True, stopped
    listed = await done(client, "ProcessList", {"state": "killed"})
    assert listed["processes"][0]["process_id"] == started["process_id"], listed


async def is_told_errors(client: Client) -> None:
    error = await refused(client, "Bash", {"command": "true", "comand": "true"})
    assert error["code"] == "invalid_arguments" and "comand" in error["message"], error
    error = await refused(client, "ProcessOutput", {"process_id": "AAAAAAAAAAAAAAAAAAAAAA"})
    assert error["code"] == "not_found", error


async def cancels(client: Client) -> None:
    """A caller that gives up: the command is stopped and its outcome told with a later result."""
    begun = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    arguments = {"command": "echo begun; sleep 1000"}
    call = asyncio.create_task(client.call_tool("Bash", arguments, progress_callback=progress))
    await begun.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    while not (await done(client, "ProcessList", {})).get("notifications"):
        await asyncio.sleep(0.05)
    listed = await done(client, "ProcessList", {"state": "running"})
    assert listed["processes"] == [], listed


async def reads_a_resource(client: Client) -> None:
    started = await done(client, "Bash", {"command": "echo one; sleep 1000", "background": True})
    uri = f"procyard://process/{started['process_id']}/output"
    wait = {"process_id": started["process_id"], "wait": "any", "timeout_ms": 30_000}
    await done(client, "ProcessOutput", wait)
    assert uri in {str(resource.uri) for resource in (await client.list_resources()).resources}
    read = (await client.read_resource(uri)).contents[0]
    assert read.text == "one\n", read
    await done(client, "ProcessStop", {"process_id": started["process_id"], "mode": "kill"})


async def takes_a_task(client: Client) -> None:
    tasks = next(known for known in client.extensions if isinstance(known, Tasks))
    result = await client.call_tool("Bash", {"command": "sleep 5; echo done; exit 3"})
    assert result.structured_content["exit_code"] == 3, result
    assert tasks.seen[-1] == (result.structured_content["process_id"], "completed"), tasks.seen
    tasks.created.clear()
    call = asyncio.create_task(client.call_tool("Bash", {"command": "sleep 1000"}))
    await tasks.created.wait()
    running = await done(client, "ProcessList", {"state": "running"})
    await ask(client.session, "tasks/cancel", running["processes"][0]["process_id"])
    await call
    assert tasks.seen[-1][1] == "cancelled", tasks.seen


STEPS = [
    lists_tools,
    runs_in_foreground,
    tells_progress,
    waits_for_a_background_process,
    stops,
    is_told_errors,
    cancels,
    reads_a_resource,
]


async def main(program: str, directory: str) -> None:
    for mode in ("legacy", "auto"):
        server = StdioServerParameters(
            command=program, args=["mcp", "--data-dir", f"{directory}/data", "--auto-yield", "3"], cwd=directory
        )
        # The SDK offers an extension with results of its own to the newest revision only.
        tasks = mode == "auto"
        extensions = [Tasks()] if tasks else None
        async with asyncio.timeout(120), Client(server, mode=mode, extensions=extensions) as client:
            for step in STEPS + [takes_a_task] * tasks:
                await step(client)
                print(f"{mode} ({client.protocol_version}): {step.__name__}", flush=True)


asyncio.run(main(*sys.argv[1:]))
