import type { Config, Hooks, PluginInput } from "@opencode-ai/plugin";
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import * as plugin from "../src/index.js";
import { directory, openCode, serve, until, type StoredMessage } from "./rig.js";

const list = { models: [{ name: "models/gemini-3-flash", displayName: "Gemini 3 Flash", inputTokenLimit: 1000, outputTokenLimit: 100, thinking: true }] };
const orphan = { name: "APIError", data: { message: "`tool_use` ids were found without `tool_result` blocks immediately after: t1", isRetryable: false } };

// start runs the plugin with settings, as OpenCode does.
async function start(t: TestContext, settings: string, messages: StoredMessage[] = []) {
  const config = directory(t);
  mkdirSync(join(config, "opencode"));
  writeFileSync(join(config, "opencode", "perigee.json"), settings);
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  process.env = { ...before, XDG_CONFIG_HOME: config, OPENCODE_CONFIG_DIR: "", PERIGEE_URL: "", PERIGEE_KEY: "" };
  const fake = await openCode(t, messages);
  const hooks = await plugin.Perigee({ client: fake.client } as PluginInput);
  return { ...fake, hooks };
}

const fail = (hooks: Hooks) => hooks.event?.({ event: { type: "session.error", properties: { sessionID: "ses_1", error: orphan } } } as Parameters<NonNullable<Hooks["event"]>>[0]);

const broken = (): StoredMessage[] => [{
  info: { id: "msg_1", sessionID: "ses_1", role: "assistant", providerID: "perigee" },
  parts: [{ id: "prt_1", sessionID: "ses_1", messageID: "msg_1", type: "tool", callID: "t1", state: { status: "pending", input: {}, raw: "" } }],
}];

test("the module exports one plugin, because OpenCode calls every export", () => {
  assert.deepEqual(Object.keys(plugin), ["Perigee"]);
});

test("the models of the running perigee are in the configuration", async (t) => {
  const perigee = await serve(t, () => ({ body: list }));
  const { hooks } = await start(t, JSON.stringify({ url: perigee.url, key: "secret" }));
  const config: Config = { provider: { other: { name: "other" } } };
  await hooks.config?.(config);
  assert.deepEqual(Object.keys(config.provider ?? {}), ["other", "perigee"]);
  assert.deepEqual(config.provider?.["perigee"]?.models?.["gemini-3-flash"]?.limit, { context: 1000, output: 100 });
  assert.equal(config.provider?.["perigee"]?.options?.apiKey, "secret");
});

test("without perigee the configuration stays, and the command to run is logged and shown", async (t) => {
  const { hooks, calls } = await start(t, '{"url": "http://127.0.0.1:1"}');
  const config: Config = { provider: { perigee: { models: { "gemini-3-flash": {} } } } };
  const before = structuredClone(config);
  await hooks.config?.(config);
  assert.deepEqual(config, before);
  const alive = setInterval(() => {}, 1000); // the toast's timer alone does not keep the process
  t.after(() => clearInterval(alive));
  await until(() => calls("/log").length === 1 && calls("/show-toast").length === 1);
  assert.match(calls("/log")[0]?.body.message, /perigee does not answer at http:\/\/127\.0\.0\.1:1: run "perigee serve"/);
  assert.equal(calls("/show-toast")[0]?.body.message, calls("/log")[0]?.body.message);
});

test("a broken settings file is reported", async (t) => {
  const { calls } = await start(t, "{");
  await until(() => calls("/log").length === 1);
  assert.match(calls("/log")[0]?.body.message, /^The settings are not used: .*perigee\.json/);
});

test("the error of a session starts the recovery", async (t) => {
  const { hooks, messages, calls } = await start(t, '{"quiet_mode": true}', broken());
  await fail(hooks);
  assert.equal(messages[0]?.parts[0]?.["state"].status, "error");
  assert.equal(calls("/prompt_async")[0]?.body.parts[0].text, "continue");
  assert.equal(calls("/show-toast").length, 0);
});

test("session_recovery switches the recovery off", async (t) => {
  const { hooks, received } = await start(t, '{"session_recovery": false}', broken());
  await fail(hooks);
  assert.equal(received.length, 0);
});

test("only a turn that ends well allows three more recoveries", async (t) => {
  const { hooks, messages, calls } = await start(t, '{"quiet_mode": true}', []);
  const again = async () => {
    const next = structuredClone(broken())[0] as StoredMessage;
    next.info.id = `msg_${messages.length + 2}`;
    next.parts[0] = { ...next.parts[0], id: `prt_${messages.length + 2}`, messageID: next.info.id } as StoredMessage["parts"][0];
    messages.push(next);
    await fail(hooks);
    return calls("/prompt_async").length;
  };
  const update = (info: object) => hooks.event?.({ event: { type: "message.updated", properties: { info: { sessionID: "ses_1", role: "assistant", time: { completed: 1 }, ...info } } } } as Parameters<NonNullable<Hooks["event"]>>[0]);
  assert.deepEqual([await again(), await again(), await again(), await again()], [1, 2, 3, 3]);
  await update({ finish: "tool-calls" });
  await update({ error: orphan });
  await update({ time: {} });
  assert.equal(await again(), 3);
  await update({ finish: "stop" });
  assert.equal(await again(), 4);
});
