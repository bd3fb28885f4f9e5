import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { Agent } from "../src/agent/agent.js";
import { Locator } from "../src/agent/locate.js";
import { Announcement } from "../src/bridge/announcement.js";
import { Bridge } from "../src/bridge/bridge.js";
import { Params } from "../src/bridge/params.js";
import { Workspace } from "../src/files/workspace.js";
import { atEnd, temporaryDir } from "./rig.js";
import { perigee } from "./standin.js";

test("perigee lists the window, and says whether it is busy", async (t) => {
  const [root, home] = [temporaryDir(t), temporaryDir(t)];
  const dir = path.join(home, ".config", "perigee", "bridges");
  const problems: string[] = [];
  const report = (problem: string) => problems.push(problem);
  const workspace = new Workspace(() => [root]);
  const names = ["antigravity.sendPromptToAgentPanel"];
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const agent = new Agent({
    commands: { list: async () => names, run: () => gate },
    locator: new Locator(() => [root], report, async () => []),
    isAgentEditor: () => false, inside: (each) => workspace.resolve(each), report,
  });
  const editor = { ide: { name: "Antigravity", version: "1.2.3" }, folders: () => [root], showFile: async () => undefined };
  const bridge = new Bridge({ editor, workspace, agent, announcement: new Announcement(dir), report });
  await bridge.start();
  atEnd(t, () => bridge.stop());

  const binary = perigee();
  const list = async () => {
    const env = { HOME: home, PATH: process.env["PATH"] ?? "" };
    const { stdout } = await promisify(execFile)(binary, ["bridge", "list", "--json"], { env });
    return JSON.parse(stdout) as unknown;
  };
  const row = { pid: process.pid, ide: "Antigravity", version: "1.2.3", workspace: [root], port: bridge.port, state: "ready" };
  assert.deepEqual(await list(), [row]);
  const submit = agent.methods().find(([name]) => name === "llm/submit")?.[1];
  assert.ok(submit);
  const submitted = submit(new Params({ id: "1", prompt: "p" }), { signal: new AbortController().signal, notify: () => undefined });
  assert.deepEqual(await list(), [{ ...row, state: "busy" }]);
  release();
  await submitted;
  assert.deepEqual(await list(), [row]);
  bridge.stop();
  assert.deepEqual(await list(), []);
  assert.deepEqual(fs.readdirSync(dir), []);
  assert.deepEqual(problems.filter((problem) => problem.includes("refused with")), []);
});
