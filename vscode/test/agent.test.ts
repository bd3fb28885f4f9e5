import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { Agent } from "../src/agent/agent.js";
import { ask, type AskRequest } from "../src/agent/ask.js";
import { call, CallError } from "../src/agent/call.js";
import { follow } from "../src/agent/follow.js";
import { LanguageServer } from "../src/agent/languageserver.js";
import { Locator } from "../src/agent/locate.js";
import { Panel, type Commands } from "../src/agent/panel.js";
import { languageServers } from "../src/agent/processes.js";
import { Announcement } from "../src/bridge/announcement.js";
import { Bridge } from "../src/bridge/bridge.js";
import { codes } from "../src/bridge/errors.js";
import { Workspace } from "../src/files/workspace.js";
import { objectAt, stringAt, type Json } from "../src/json.js";
import { atEnd, Client, eventually, temporaryDir } from "./rig.js";
import { StandIn, startSupervised } from "./standin.js";

const quick = { settle: 0, command: 60_000 };

// An IdeRig has the commands of the IDE: its panel sends prompts to the language server, as the real one does.
class IdeRig implements Commands {
  readonly ran: string[] = [];
  names = ["antigravity.sendPromptToAgentPanel", "antigravity.startNewConversation", "antigravity.getDiagnostics", "antigravity.setVisibleConversation"];
  diagnostics: unknown = "{}";
  wait: Promise<void> = Promise.resolve();

  constructor(private readonly standIn: StandIn | undefined) {}

  async list(): Promise<string[]> {
    return this.names;
  }

  async run(command: string, ...args: unknown[]): Promise<unknown> {
    this.ran.push([command.replace("antigravity.", ""), ...args].join(" "));
    await this.wait;
    if (command === "antigravity.getDiagnostics") {
      return this.diagnostics;
    }
    if (command === "antigravity.sendPromptToAgentPanel" && this.standIn !== undefined) {
      const cascadeId = stringAt(await this.standIn.call("StartCascade", {}), "cascadeId");
      const model = "MODEL_PLACEHOLDER_M18";
      await this.standIn.call("SendUserCascadeMessage", { cascadeId, items: [{ text: args[0] }], cascadeConfig: { plannerConfig: { requestedModel: { model } } } });
    }
    return undefined;
  }
}

interface Rig {
  readonly standIn: StandIn | undefined;
  readonly ide: IdeRig;
  readonly root: string;
  readonly problems: string[];
  connect(): Promise<Client>;
  greet(): Promise<Json>; // the result of hello
}

// rig is a window of an IDE with an agent. Its language server is found by its parent process.
async function rig(t: TestContext, standIn?: StandIn): Promise<Rig> {
  const root = temporaryDir(t);
  const ide = new IdeRig(standIn);
  const problems: string[] = [];
  const report = (problem: string) => problems.push(problem);
  const workspace = new Workspace(() => [root]);
  const locator = standIn === undefined ? new Locator(() => [], report, async () => []) : new Locator(() => [root], report);
  const agent = new Agent({ commands: ide, locator, isAgentEditor: () => true, inside: (dir) => workspace.resolve(dir), report, panel: new Panel(ide, quick) });
  const editor = { ide: { name: "Antigravity", version: "1.2.3" }, folders: () => [root], showFile: async () => undefined };
  const announcement = new Announcement(temporaryDir(t));
  const written: string[] = [];
  announcement.write = ({ token }) => void written.push(token);
  const bridge = new Bridge({ editor, workspace, agent, announcement, report });
  await bridge.start();
  atEnd(t, () => bridge.stop());
  const open = () => Client.connect(t, bridge.port ?? 0, { Authorization: `Bearer ${written[0]}` });
  const connect = async () => {
    const client = await open();
    await client.call("hello", { version: 1 });
    return client;
  };
  const greet = async () => (await open()).call("hello", { version: 1 });
  return { standIn, ide, root, problems, connect, greet };
}

const slow = "[[tokens: 100]] [[chunks: 50]] [[pace: 50ms]]"; // thinks and writes for 2.5 seconds each

test("asks over the language server", async (t) => {
  const standIn = await StandIn.start(t);
  const { connect, greet, root, ide } = await rig(t, standIn);
  const client = await connect();

  await t.test("hello tells where the language server is", async () => {
    const { http, https, csrf } = standIn.endpoint;
    const hello = await greet();
    assert.deepEqual(hello["capabilities"], { llm: true, fs: true, state: true, ui: true, follow: true });
    assert.deepEqual(hello["language_server"], { port: http, https_port: https, csrf_token: csrf });
    await call({ http: 0, https, csrf }, "Heartbeat", {}, { limit: 60_000 });
    await assert.rejects(call({ http, https, csrf: "other" }, "Heartbeat", {}, { limit: 60_000 }), { kind: "token" });
    await assert.rejects(call({ http, https, csrf }, "NoSuchMethod", {}, { limit: 60_000 }), { isMissing: true });
  });

  let conversation = "";
  await t.test("a prompt is answered", async () => {
    const answer = await client.call("llm/ask", { id: "1", prompt: "[[text: hello there]]" });
    conversation = stringAt(answer, "conversation");
    assert.match(conversation, /^[0-9a-f-]{36}$/);
    assert.deepEqual([answer["text"], answer["status"], answer["waiting_for"], answer["error"], answer["degraded"]], ["hello there", "done", undefined, undefined, undefined]);
    const usage = answer["usage"] as Record<string, number>;
    assert.ok((usage["input"] ?? 0) > 0 && (usage["output"] ?? 0) > 0, JSON.stringify(usage));
    assert.ok(stringAt(answer, "model") !== "");
    const first = objectAt(client.notifications[0], "params");
    assert.deepEqual(first, { id: "1", text: "", steps: 0, conversation });
    assert.equal(stringAt(objectAt(client.notifications.at(-1), "params"), "text"), "hello there");
    assert.ok(client.notifications.every((each) => each["method"] === "llm/progress"));
    assert.deepEqual(ide.ran, [], "a command of the IDE was used");
  });

  await t.test("a conversation goes on", async () => {
    const answer = await client.call("llm/ask", { id: "2", prompt: "[[text: again]]", conversation });
    assert.deepEqual([answer["text"], answer["status"], answer["conversation"]], ["again", "done", conversation]);
    const last = await client.call("llm/ask", { id: "3", prompt: "", conversation });
    assert.deepEqual([last["text"], last["status"]], ["again", "done"]);
    const unknown = await client.refused("llm/ask", { id: "4", prompt: "p", conversation: "11111111-2222-4333-8444-555555555555" });
    assert.deepEqual([unknown.code, unknown.data?.["class"]], [codes.badParams, "not_found"]);
  });

  await t.test("the model can be chosen", async () => {
    const answer = await client.call("llm/ask", { id: "5", prompt: "[[text: x]]", model: "Gemini 2.5 Flash", read_only: true });
    assert.equal(answer["status"], "done");
    const wrong = await client.refused("llm/ask", { id: "6", prompt: "p", model: "no-such-model" });
    assert.deepEqual([wrong.code, wrong.data?.["class"]], [codes.badParams, "not_found"]);
    assert.match(wrong.message, /Gemini 2.5 Flash|gemini-2.5-flash/);
  });

  await t.test("a directory of another window is refused", async () => {
    assert.equal((await client.refused("llm/ask", { id: "7", prompt: "p", workspace: "/etc" })).code, codes.outside);
    assert.equal((await client.call("llm/ask", { id: "8", prompt: "[[text: x]]", workspace: root }))["status"], "done");
  });

  await t.test("an agent that needs a person waits", async () => {
    const prompt = `[[call: run_command {"CommandLine":"make all","Cwd":"/","toolAction":"a","toolSummary":"b"}]] [[then]] [[text: ran]]`;
    const answer = await client.call("llm/ask", { id: "9", prompt });
    assert.equal(answer["status"], "waiting");
    assert.match(stringAt(answer, "waiting_for"), /make all/);
    const id = stringAt(answer, "conversation");
    const busy = await client.refused("llm/ask", { id: "10", prompt: "more", conversation: id });
    assert.equal(busy.code, codes.busy);
    const recent = await client.call("state/recent", { limit: 1 });
    assert.deepEqual((recent["conversations"] as Json[]).map((each) => [each["id"], each["status"]]), [[id, "waiting"]]);
    await standIn.call("CancelCascadeInvocation", { cascadeId: id });
    await eventually("the end of the turn", async () => (await standIn.call("GetCascadeTrajectory", { cascadeId: id }))["status"] === "CASCADE_RUN_STATUS_IDLE");
    assert.equal((await client.call("llm/ask", { id: "11", prompt: "", conversation: id }))["status"], "cancelled");
  });

  await t.test("cancel stops the agent", async () => {
    const asked = client.call("llm/ask", { id: "13", prompt: slow });
    const id = await shown(client, "13");
    assert.equal((await client.refused("llm/ask", { id: "13", prompt: "p" })).code, codes.badParams, "the id is in use");
    assert.equal((await client.refused("llm/ask", { id: "14", prompt: "p", conversation: id })).code, codes.busy);
    assert.deepEqual(await client.call("llm/cancel", { id: "13" }), {});
    const answer = await asked;
    assert.deepEqual([answer["status"], answer["conversation"]], ["cancelled", id]);
    assert.notEqual(answer["text"], "");
    await eventually("the end of the turn", async () => (await standIn.call("GetCascadeTrajectory", { cascadeId: id }))["status"] === "CASCADE_RUN_STATUS_IDLE");
  });

  await t.test("an ask that is out of time leaves the agent working", async () => {
    const answer = await client.call("llm/ask", { id: "15", prompt: slow, timeout_seconds: 1 });
    assert.equal(answer["status"], "timeout");
    const rest = await client.call("llm/ask", { id: "16", prompt: "", conversation: answer["conversation"] });
    assert.equal(rest["status"], "done");
    assert.ok(stringAt(rest, "text").length > stringAt(answer, "text").length);
  });

  await t.test("a client that leaves does not stop the agent", async () => {
    const leaving = await connect();
    leaving.request("llm/ask", { id: "17", prompt: slow }).catch(() => undefined);
    const id = await shown(leaving, "17");
    leaving.socket.terminate();
    const rest = await client.call("llm/ask", { id: "18", prompt: "", conversation: id });
    assert.equal(rest["status"], "done");
  });

  await t.test("answers of asks at once do not mix", async () => {
    const asks = Array.from({ length: 12 }, (_, i) => client.call("llm/ask", { id: `many-${i}`, prompt: `[[text: answer ${i}]]` }));
    const answers = await Promise.all(asks);
    assert.deepEqual(answers.map((each) => each["text"]), answers.map((_, i) => `answer ${i}`));
    assert.equal(new Set(answers.map((each) => each["conversation"])).size, 12);
  });

  await t.test("an error of the provider is the failure of the ask", async () => {
    await standIn.failProvider({ do: "quota_exhausted", when: { method: "streamGenerateContent" }, times: 3 });
    const answer = await client.call("llm/ask", { id: "12", prompt: "[[text: x]]" });
    assert.equal(answer["status"], "failed");
    assert.match(String(objectAt(answer, "error")["class"]), /^(exhausted|rate_limited)$/);
    assert.notEqual(stringAt(objectAt(answer, "error"), "message"), "");
  });
});

// shown waits until an ask has written something, and returns its conversation.
async function shown(client: Client, id: string): Promise<string> {
  const last = () => objectAt(client.notifications.findLast((each) => objectAt(each, "params")["id"] === id), "params");
  await eventually("a text", () => stringAt(last(), "text") !== "");
  return stringAt(last(), "conversation");
}

for (const generation of ["classic", "classic2"]) {
  test(`a language server of the generation ${generation} answers, waits and stops`, async (t) => {
    const parent = await startSupervised(t, generation);
    const locator = new Locator(() => [], assert.fail, languageServers, parent);
    const server = new LanguageServer((stale) => locator.locate(stale), "2.15.1");
    const panel = new Panel(new IdeRig(undefined), quick);
    const never = new AbortController().signal;
    const request = { prompt: "", readOnly: false, deadline: undefined, left: never, cancelled: never, progress: () => undefined };
    const first = await ask(server, panel, { ...request, prompt: "[[text: hello]]" });
    assert.deepEqual([first.text, first.status], ["hello", "done"]);
    const second = await ask(server, panel, { ...request, prompt: "[[text: again]]", conversation: first.conversation });
    assert.deepEqual([second.text, second.status], ["again", "done"]);
    const question = `[[call: ask_question {"Question":"Which way?","First":"left","Second":"right","toolAction":"a","toolSummary":"b"}]]`;
    const waiting = await ask(server, panel, { ...request, prompt: question });
    assert.equal(waiting.status, "waiting");
    assert.match(waiting.waiting_for ?? "", /Which way\?.*left.*right/);
    const cancel = new AbortController();
    const stopped = await ask(server, panel, { ...request, prompt: slow, cancelled: cancel.signal, progress: (_id, text) => text !== "" && cancel.abort() });
    assert.equal(stopped.status, "cancelled");
    assert.notEqual(stopped.text, "");
  });
}

test("a language server that is started again is found again", async (t) => {
  const standIn = await StandIn.start(t);
  const { connect } = await rig(t, standIn);
  const client = await connect();
  const before = standIn.pid;
  const first = await client.call("llm/ask", { id: "1", prompt: "[[text: one]]" });
  await standIn.restart();
  assert.notEqual(standIn.pid, before);
  const second = await client.call("llm/ask", { id: "2", prompt: "[[text: two]]", conversation: first["conversation"] });
  assert.deepEqual([second["text"], second["status"]], ["two", "done"]);
});

test("a language server that dies during an ask ends it", async (t) => {
  const standIn = await StandIn.start(t);
  const server = new LanguageServer(async () => standIn.endpoint);
  const conversation = await server.start();
  const [model] = await server.models();
  assert.ok(model);
  const never = new AbortController().signal;
  assert.ok(await server.send(conversation, slow, model, { readOnly: false, known: 0, signal: never }));
  let text = "";
  const followed = follow(
    server,
    { conversation, prompt: slow, from: 0, deadline: undefined, left: never, cancelled: never, progress: (now) => (text = now) },
    { busy: 20, calm: 20, begin: 60_000, patience: 300, cancel: 1_000 },
  );
  await eventually("a text", () => text !== "");
  await standIn.kill();
  const answer = await followed;
  assert.deepEqual([answer.status, answer.error?.class], ["failed", "unavailable"]);
  assert.notEqual(answer.text, "");
});

for (const method of ["SendUserCascadeMessage", "GetCascadeTrajectory"]) {
  test(`a language server that never answers ${method} does not hold an ask`, async (t) => {
    const standIn = await StandIn.start(t, `hang-on-call:${method}`);
    const { connect } = await rig(t, standIn);
    const client = await connect();
    const late = await client.call("llm/ask", { id: "1", prompt: slow, timeout_seconds: 1 });
    assert.equal(late["status"], "timeout");
    assert.notEqual(late["conversation"], "");
    const asked = client.call("llm/ask", { id: "2", prompt: slow });
    await eventually("a conversation", () => client.notifications.some((each) => objectAt(each, "params")["id"] === "2"));
    await client.call("llm/cancel", { id: "2" });
    assert.equal((await asked)["status"], "cancelled");
  });
}

test("without calls that start a conversation, the panel gets the prompt, and its conversation is found", async (t) => {
  const standIn = await StandIn.start(t);
  const ide = new IdeRig(standIn);
  const server = new LanguageServer(async () => standIn.endpoint);
  server.start = () => Promise.reject(new CallError("answered", "not available", "unimplemented"));
  const never = new AbortController().signal;
  const request = (prompt: string): AskRequest => ({ prompt, readOnly: false, deadline: undefined, left: never, cancelled: never, progress: () => undefined });
  const panel = new Panel(ide, quick);
  for (const prompt of ["[[text: by the panel]]", "[[text: by the panel]]"]) { // the same text twice
    const answer = await ask(server, panel, request(prompt));
    assert.deepEqual([answer.text, answer.status], ["by the panel", "done"]);
    assert.match(answer.degraded?.join() ?? "", /did not take the prompt: not available/);
  }
  assert.equal(panel.busy, false);
  assert.deepEqual(ide.ran, ["startNewConversation", "sendPromptToAgentPanel [[text: by the panel]]", "startNewConversation", "sendPromptToAgentPanel [[text: by the panel]]"]);
  await assert.rejects(ask(server, panel, { ...request("p"), readOnly: true }), { code: codes.noAgent });
  await assert.rejects(ask(server, panel, { ...request("p"), model: "Gemini 2.5 Flash" }), { code: codes.noAgent });
});

test("without a language server prompts can be submitted, one at a time", async (t) => {
  const { connect, greet, ide } = await rig(t);
  const client = await connect();
  assert.deepEqual((await greet())["capabilities"], { llm: true, fs: true, state: true, ui: true, follow: false });
  ide.diagnostics = JSON.stringify({
    systemInfo: { userEmail: "ada@example.com" },
    recentTrajectories: [
      { googleAgentId: "c1", trajectoryId: "t1", summary: "First", lastStepIndex: 4, lastModifiedTime: "2026-11-16T10:00:00.5Z" },
      { googleAgentId: "c2" },
      { summary: "no id" },
      null,
    ],
  });
  const refused = await client.refused("llm/ask", { id: "1", prompt: "p" });
  assert.equal(refused.code, codes.noAgent);
  assert.match(refused.message, /llm\/submit/);
  let release: () => void = () => undefined;
  ide.wait = new Promise((resolve) => (release = resolve));
  const submitted = client.call("llm/submit", { id: "2", prompt: "do it" });
  await eventually("a command", () => ide.ran.length > 0);
  assert.equal((await client.refused("llm/submit", { id: "3", prompt: "and that" })).code, codes.busy);
  assert.equal((await greet())["busy"], true);
  release();
  const result = await submitted;
  assert.deepEqual(ide.ran, ["getDiagnostics", "startNewConversation", "sendPromptToAgentPanel do it"]);
  assert.deepEqual(result["before"], [{ id: "c1", modified: "2026-11-16T10:00:00.500Z", steps: 5 }, { id: "c2", steps: 0 }]);
  assert.deepEqual(result["degraded"], ["antigravity.getDiagnostics: 2 of 4 conversations have no id"]);
  assert.ok(Math.abs(Date.parse(stringAt(result, "submitted")) - Date.now()) < 60_000);
  ide.ran.length = 0;
  await client.call("llm/submit", { id: "4", prompt: "more", conversation: "c1" });
  assert.deepEqual(ide.ran, ["getDiagnostics", "setVisibleConversation c1", "sendPromptToAgentPanel more"]);
  const recent = await client.call("state/recent", { limit: 1 });
  assert.deepEqual(recent["conversations"], [{ id: "c1", title: "First", workspace: "", status: "unknown", steps: 5, modified: "2026-11-16T10:00:00.500Z" }]);
  assert.ok(!JSON.stringify(recent).includes("ada@"));
});

test("commands that are missing or answer otherwise are named in the result", async (t) => {
  const { connect, ide, problems } = await rig(t);
  const client = await connect();
  for (const [diagnostics, problem] of [["no JSON", /recentTrajectories/], [undefined, /recentTrajectories/], [{ recentTrajectories: {} }, /recentTrajectories/]] as const) {
    ide.diagnostics = diagnostics;
    const result = await client.call("llm/submit", { id: "1", prompt: "p" });
    assert.deepEqual(result["before"], []);
    assert.match(String(result["degraded"]), problem);
  }
  ide.diagnostics = { recentTrajectories: [{ googleAgentId: "c", lastModifiedTime: 1700000000000, lastStepIndex: "2" }] };
  assert.deepEqual((await client.call("llm/submit", { id: "2", prompt: "p" }))["before"], [{ id: "c", modified: "2023-11-14T22:13:20.000Z", steps: 3 }]);
  ide.names = ["antigravity.sendChatActionMessage"];
  ide.ran.length = 0;
  const result = await client.call("llm/submit", { id: "3", prompt: "hi" });
  assert.deepEqual(ide.ran, [`sendChatActionMessage {"actionType":"sendMessage","payload":["CgJoaQ=="]}`]);
  assert.match(String(result["degraded"]), /getDiagnostics.*startNewConversation/s);
  assert.equal((await client.refused("llm/submit", { id: "4", prompt: "p", conversation: "c" })).data?.["class"], "unimplemented");
  ide.names = [];
  assert.equal((await client.refused("llm/submit", { id: "5", prompt: "p" })).code, codes.noAgent);
  assert.ok(problems.length > 0);
});
