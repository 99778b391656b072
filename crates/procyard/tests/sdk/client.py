"""Drives `procyard mcp` with the official MCP SDK, in both of its ways to open the protocol.

Called with the program and a directory to work in. Prints what it did; any failure is an exception, hence a non-zero
exit. The SDK itself holds each structured result against the output schema of its tool. Not a test of the SDK.
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters

HANDLES = {"Bash", "ProcessOutput", "ProcessInput", "ProcessStop", "ProcessList"}


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
    assert {tool.name for tool in tools} == HANDLES, tools
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


STEPS = [
    lists_tools,
    runs_in_foreground,
    tells_progress,
    waits_for_a_background_process,
    stops,
    is_told_errors,
    cancels,
]


async def main(program: str, directory: str) -> None:
    for mode in ("legacy", "auto"):
        server = StdioServerParameters(
            command=program, args=["mcp", "--data-dir", f"{directory}/data"], cwd=directory
        )
        async with asyncio.timeout(120), Client(server, mode=mode) as client:
            for step in STEPS:
                await step(client)
                print(f"{mode} ({client.protocol_version}): {step.__name__}", flush=True)


asyncio.run(main(*sys.argv[1:]))
