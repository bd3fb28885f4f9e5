import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test, type TestContext } from "node:test";

import { Agent } from "../src/agent/agent.js";
import { Locator } from "../src/agent/locate.js";
import { Announcement } from "../src/bridge/announcement.js";
import { Bridge } from "../src/bridge/bridge.js";
import { codes } from "../src/bridge/errors.js";
import { Workspace } from "../src/files/workspace.js";
import { atEnd, Client, temporaryDir } from "./rig.js";

interface Rig {
  readonly bridge: Bridge;
  readonly root: string;
  readonly folders: string[];
  readonly dir: string; // of announcements
  readonly shown: [string, number | undefined][];
  announced(): { port: number; token: string; workspace: string[]; pid: number };
  greeted(): Promise<Client>;
}

// rig is a window of an editor without an agent.
async function rig(t: TestContext): Promise<Rig> {
  const root = temporaryDir(t);
  const dir = path.join(temporaryDir(t), "bridges");
  const folders = [root];
  const shown: [string, number | undefined][] = [];
  const report = () => undefined;
  const workspace = new Workspace(() => folders);
  const agent = new Agent({
    commands: { list: async () => ["workbench.action.files.save"], run: async () => undefined },
    locator: new Locator(() => folders, report, async () => []),
    isAgentEditor: () => false,
    inside: (each) => workspace.resolve(each),
    report,
  });
  const editor = {
    ide: { name: "Code", version: "1.104.0" },
    folders: () => folders,
    showFile: async (file: string, line: number | undefined) => void shown.push([file, line]),
  };
  const bridge = new Bridge({ editor, workspace, agent, announcement: new Announcement(dir), report });
  await bridge.start();
  atEnd(t, () => bridge.stop());
  const announced = () => JSON.parse(fs.readFileSync(path.join(dir, `${process.pid}.json`), "utf8")) as ReturnType<Rig["announced"]>;
  const greeted = async () => {
    const { port, token } = announced();
    const client = await Client.connect(t, port, { Authorization: `Bearer ${token}` });
    await client.call("hello", { version: 1, client: { name: "test", version: "1" } });
    return client;
  };
  return { bridge, root, folders, dir, shown, announced, greeted };
}

test("a window announces itself, and a client finds it by that alone", async (t) => {
  const { bridge, root, announced } = await rig(t);
  const { port, token, workspace, pid } = announced();
  assert.deepEqual([port, workspace, pid], [bridge.port, [root], process.pid]);
  assert.equal(Buffer.from(token, "base64url").length, 32);
  const client = await Client.connect(t, port, { Authorization: `Bearer ${token}` });
  const version = await client.refused("hello", { version: 2 });
  assert.deepEqual([version.code, version.data], [codes.version, { version: 1 }]);
  assert.equal((await client.refused("hello", { version: "1" })).code, codes.badParams);
  assert.deepEqual(await client.call("hello", { version: 1, client: { name: "test", version: "1" } }), {
    version: 1, ide: { name: "Code", version: "1.104.0" }, workspace: [root], pid: process.pid, busy: false,
    capabilities: { llm: false, fs: true, state: false, ui: true, follow: false },
  });
});

test("an editor without an agent answers asks with no agent", async (t) => {
  const client = await (await rig(t)).greeted();
  for (const [method, params] of [
    ["llm/ask", { id: "a", prompt: "p" }], ["llm/submit", { id: "a", prompt: "p" }], ["state/recent", {}], ["ui/show", { conversation: "c" }],
  ] as const) {
    assert.equal((await client.refused(method, params)).code, codes.noAgent, method);
  }
  for (const params of [{}, { id: "a" }, { id: "", prompt: "p" }, { id: "a", prompt: "" }, { id: "a", prompt: "p", timeout_seconds: 0 }, { id: 1, prompt: "p" }]) {
    assert.equal((await client.refused("llm/ask", params)).code, codes.badParams, JSON.stringify(params));
  }
  assert.deepEqual(await client.call("llm/cancel", { id: "unknown" }), {});
});

test("files are read over the connection, and shown in the editor", async (t) => {
  const { greeted, root, shown } = await rig(t);
  const client = await greeted();
  await client.call("fs/write", { path: "a", content: "text" });
  assert.equal((await client.call("fs/read", { path: "a" }))["content"], "text");
  assert.equal((await client.refused("fs/read", { path: "../x" })).code, codes.outside);
  await client.call("ui/show", { file: "a", line: 7 });
  assert.deepEqual(shown, [[path.join(root, "a"), 7]]);
  assert.equal((await client.refused("ui/show", { file: "/etc/passwd" })).code, codes.outside);
  assert.equal((await client.refused("ui/show", {})).code, codes.badParams);
});

test("folders that change are announced", async (t) => {
  const { bridge, folders, announced, greeted } = await rig(t);
  const before = announced();
  const more = temporaryDir(t);
  folders.push(more);
  bridge.announce();
  assert.deepEqual(announced(), { ...before, workspace: [...before.workspace, more] });
  await (await greeted()).call("fs/list", { path: more });
});

test("a bridge that is stopped is gone, and can be started again", async (t) => {
  const { bridge, dir, announced, greeted } = await rig(t);
  const { port, token } = announced();
  const client = await greeted();
  const closed = new Promise((resolve) => client.socket.on("close", resolve));
  await bridge.start();
  assert.equal(bridge.port, port, "a second start has an effect");
  bridge.stop();
  await closed;
  assert.deepEqual(fs.readdirSync(dir), []);
  bridge.announce();
  assert.deepEqual(fs.readdirSync(dir), []);
  await bridge.start();
  await greeted();
  assert.notEqual(announced().token, token, "the token is the old one");
  bridge.stop();
  const starting = bridge.start();
  bridge.stop();
  await starting;
  assert.equal(bridge.port, undefined, "it was started after it was stopped");
  assert.deepEqual(fs.readdirSync(dir), []);
});

test("a window that cannot announce itself does not listen", async (t) => {
  const { bridge, dir } = await rig(t);
  bridge.stop();
  fs.rmdirSync(dir);
  fs.writeFileSync(dir, "");
  await assert.rejects(bridge.start());
  assert.equal(bridge.port, undefined);
  bridge.stop();
});

test("a window whose announcement cannot be removed does not listen any more", async (t) => {
  const { bridge, dir, announced } = await rig(t);
  const { port, token } = announced();
  fs.rmSync(dir, { recursive: true });
  fs.writeFileSync(dir, "");
  assert.throws(() => bridge.stop(), { code: "ENOTDIR" });
  assert.equal(bridge.port, undefined);
  await assert.rejects(Client.connect(t, port, { Authorization: `Bearer ${token}` }), { code: "ECONNREFUSED" });
});
