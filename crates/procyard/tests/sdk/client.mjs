// Drives procyard with the official MCP SDK for TypeScript.
//
// Called with the directory that has the SDK, and either the program and a directory to work in, or the address of a
// service. Prints what it did; any failure is an exception, hence a non-zero exit. The SDK itself holds each structured
// result against the output schema of its tool. Not a test of the SDK.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, target, directory] = process.argv.slice(2);
const load = createRequire(join(modules, "client.cjs"));
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ResourceUpdatedNotificationSchema } = load("@modelcontextprotocol/sdk/types.js");
const { z } = load("zod");

const TASKS = "io.modelcontextprotocol/tasks";
const TOOLS = ["Bash", "ProcessOutput", "ProcessInput", "ProcessStop", "ProcessList"];

/** A call that is carried out, and its structured result. */
async function done(client, name, args, options) {
  const result = await client.callTool({ name, arguments: args }, undefined, options);
  assert(!result.isError, JSON.stringify(result));
  assert(result.content[0].text, "a text for the model");
  return result.structuredContent;
}

/** A call that cannot be carried out, and its error. */
async function refused(client, name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert(result.isError, JSON.stringify(result));
  return result.structuredContent.error;
}

async function listsTools(client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), TOOLS);
  assert(tools.every((tool) => tool.description && tool.outputSchema && tool.inputSchema.type === "object"));
}

async function runsInForeground(client) {
  const ended = await done(client, "Bash", { command: "echo out; echo err >&2; exit 3" });
  assert.equal(ended.status, "exited");
  assert.equal(ended.exit_code, 3);
  assert.deepEqual(ended.output.split("\n").sort(), ["", "err", "out"]);
}

async function tellsProgress(client) {
  let told;
  const first = new Promise((resolve) => (told = resolve));
  const command = "echo underway; while ! [ -e go ]; do sleep 0.05; done; rm go; echo done";
  const running = done(client, "Bash", { command }, { onprogress: told });
  const report = await first;
  assert.equal(report.progress, 9);
  assert.equal(report.message, "underway");
  await done(client, "Bash", { command: "touch go" });
  assert.equal((await running).output, "underway\ndone\n");
}

async function waitsForABackgroundProcess(client) {
  const command = "echo one; read line; echo got $line; read end";
  const started = await done(client, "Bash", { command, background: true, stdin: true });
  assert.equal(started.status, "running");
  const wait = { process_id: started.process_id, wait: "any", timeout_ms: 30000 };
  const first = await done(client, "ProcessOutput", { ...wait, until: "match", pattern: "one" });
  assert.equal(first.output, "one\n");
  await done(client, "ProcessInput", { process_id: started.process_id, data: "two\n" });
  const second = { ...wait, until: "match", pattern: "got two", cursor: first.next_cursor };
  assert.equal((await done(client, "ProcessOutput", second)).output, "got two\n");
  await done(client, "ProcessInput", { process_id: started.process_id, eof: true });
  const last = await done(client, "ProcessOutput", { ...wait, until: "exit" });
  assert.equal(last.status, "exited");
}

async function stopsAndLists(client) {
  const started = await done(client, "Bash", { command: "sleep 1000", background: true });
  const stopped = await done(client, "ProcessStop", { process_id: started.process_id, mode: "kill" });
  assert.equal(stopped.status, "killed");
  assert.equal(stopped.tree_exited, true);
  const listed = await done(client, "ProcessList", { state: "killed" });
  assert.equal(listed.processes[0].process_id, started.process_id);
}

async function isToldErrors(client) {
  const misspelt = await refused(client, "Bash", { command: "true", comand: "true" });
  assert.equal(misspelt.code, "invalid_arguments");
  assert.match(misspelt.message, /comand/);
  const missing = await refused(client, "ProcessOutput", { process_id: "AAAAAAAAAAAAAAAAAAAAAA" });
  assert.equal(missing.code, "not_found");
}

async function followsAResource(client) {
  const started = await done(client, "Bash", { command: "cat", background: true, stdin: true });
  const uri = `procyard://process/${started.process_id}/output`;
  const { resources } = await client.listResources();
  assert(resources.some((resource) => resource.uri === uri));
  let told;
  const update = new Promise((resolve) => (told = resolve));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => told(params.uri));
  await client.subscribeResource({ uri });
  await done(client, "ProcessInput", { process_id: started.process_id, data: "hello\n" });
  assert.equal(await update, uri);
  const read = await client.readResource({ uri });
  assert.equal(read.contents[0].text, "hello\n");
  await client.unsubscribeResource({ uri });
  await done(client, "ProcessStop", { process_id: started.process_id, mode: "kill" });
}

/** A caller that gives up: the command is stopped and its outcome told with a later result. */
async function cancels(client) {
  const giveUp = new AbortController();
  let begun;
  const running = new Promise((resolve) => (begun = resolve));
  const options = { signal: giveUp.signal, onprogress: begun };
  const call = done(client, "Bash", { command: "echo begun; sleep 1000" }, options);
  call.catch(() => {});
  await running;
  giveUp.abort("enough");
  await assert.rejects(call);
  let notices;
  while (!(notices = (await done(client, "ProcessList", {})).notifications)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(notices[0].status, "terminated");
  assert.deepEqual((await done(client, "ProcessList", { state: "running" })).processes, []);
}

/** The SDK has no words of its own for this extension, so it is asked by its methods. */
async function takesATask(client) {
  const ask = (method, params) => client.request({ method, params }, z.object({}).passthrough());
  const command = "while ! [ -e over ]; do sleep 0.05; done; rm over; echo done; exit 3";
  const task = await ask("tools/call", { name: "Bash", arguments: { command } });
  assert.equal(task.resultType, "task", JSON.stringify(task));
  assert.equal((await ask("tasks/get", { taskId: task.taskId })).status, "working");
  await done(client, "Bash", { command: "touch over" });
  let got;
  while ((got = await ask("tasks/get", { taskId: task.taskId })).status === "working") {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(got.status, "completed");
  assert.equal(got.result.structuredContent.exit_code, 3);
  const other = await ask("tools/call", { name: "Bash", arguments: { command: "sleep 1000" } });
  await ask("tasks/cancel", { taskId: other.taskId });
  while ((got = await ask("tasks/get", { taskId: other.taskId })).status === "working") {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(got.status, "cancelled");
}

const STEPS = [
  listsTools,
  runsInForeground,
  tellsProgress,
  waitsForABackgroundProcess,
  stopsAndLists,
  isToldErrors,
  followsAResource,
  cancels,
  takesATask,
];

function transport() {
  if (!directory) {
    return new StreamableHTTPClientTransport(new URL(target));
  }
  const args = ["mcp", "--data-dir", join(directory, "data"), "--auto-yield", "3"];
  return new StdioClientTransport({ command: target, args, cwd: directory });
}

const client = new Client({ name: "test", version: "1" }, { capabilities: { extensions: { [TASKS]: {} } } });
const hangs = setTimeout(() => {
  console.error("not within 120 s");
  process.exit(1);
}, 120_000);
await client.connect(transport());
assert.equal(client.getServerVersion().name, "procyard");
for (const step of STEPS) {
  await step(client);
  console.log(`typescript: ${step.name}`);
}
await client.close();
clearTimeout(hangs);
