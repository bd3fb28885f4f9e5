import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { Log } from "../src/log.js";
import { cancelledResult, kindOf, Recovery } from "../src/recovery.js";
import { directory, openCode, until, type StoredMessage } from "./rig.js";

// Messages of providers, word for word.
const advice = " When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns.";
const orphan = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.";
const order = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`." + advice;
const disabled = "messages.1.content.0: When thinking is disabled, an assistant message in the final position cannot contain thinking. To use thinking blocks, enable `thinking` in your request.";
const refusal = (message: string) => ({ name: "APIError", data: { message, statusCode: 400, isRetryable: false } });

test("errors are classified by the provider's words", () => {
  for (const [error, kind] of [
    [refusal(orphan), "tool_result_missing"],
    [refusal("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."), "tool_result_missing"],
    [refusal(order), "thinking_block_order"],
    [{ message: "Expected thinking but found text" }, "thinking_block_order"],
    [{ error: { message: "the first block must be a thinking block" } }, "thinking_block_order"],
    [{ data: { error: { message: disabled } } }, "thinking_disabled_violation"],
    [disabled, "thinking_disabled_violation"],
    [refusal("prompt is too long: 210000 tokens > 200000 maximum (tool_use, tool_result)"), undefined],
    [refusal("Request contains an invalid argument."), undefined],
    [refusal("rate limit of the thinking model, expected 5, found 6"), undefined],
    [refusal("thinking model is overloaded; debug: expected=5 found=6"), undefined],
    [{ name: "MessageAbortedError", data: { message: "Aborted" } }, undefined],
    [undefined, undefined],
  ] as const) {
    assert.equal(kindOf(error), kind, JSON.stringify(error));
  }
});

const sessionID = "ses_1";
const model = { providerID: "perigee", modelID: "claude-sonnet-4-6", variant: "low" };

function user(id: string): StoredMessage {
  return { info: { id, sessionID, role: "user", agent: "build", model }, parts: [{ id: `prt_${id}`, type: "text", text: "hello" }] };
}

function assistant(id: string, parts: object[] = [], info: object = {}): StoredMessage {
  const stored = parts.map((part, i) => ({ id: `prt_${id}_${i}`, sessionID, messageID: id, type: "", ...part }));
  return { info: { id, sessionID, role: "assistant", providerID: "perigee", modelID: model.modelID, ...info }, parts: stored };
}

const running = { type: "tool", tool: "bash", callID: "toolu_1", state: { status: "running", input: { command: "sleep 600" }, time: { start: 5 } } };

async function rig(t: TestContext, messages: StoredMessage[], settings: object = {}, session: object = {}) {
  const fake = await openCode(t, messages, session);
  const log = new Log(fake.client, { debug: 0, debug_tui: false, quiet_mode: false, log_dir: directory(t) });
  const toasts: string[] = [];
  log.toast = (_message, variant) => toasts.push(variant);
  return { ...fake, toasts, recovery: new Recovery(fake.client, { auto_resume: true, resume_text: "go on", ...settings }, log) };
}

test("an interrupted tool call gets a cancelled result, and the session goes on as it was asked", async (t) => {
  const done = { type: "tool", tool: "read", callID: "toolu_0", state: { status: "completed", input: {}, output: "text", title: "", metadata: {}, time: { start: 1, end: 2 } } };
  const { recovery, messages, calls, received, toasts } = await rig(t, [user("msg_1"), assistant("msg_2", [{ type: "step-start" }, done, running]), user("msg_3"), assistant("msg_4")]);
  assert.equal(await recovery.failed(sessionID, refusal(orphan)), true);
  const [start, kept, repaired] = messages[1]?.parts ?? [];
  assert.equal(start?.type, "step-start");
  assert.equal(kept?.["state"].output, "text");
  const { time, ...state } = repaired?.["state"];
  assert.deepEqual(state, { status: "error", input: { command: "sleep 600" }, error: cancelledResult, metadata: { interrupted: true } });
  assert.equal(time.start, 5);
  assert.equal(repaired?.["callID"], "toolu_1");
  assert.deepEqual(calls("/prompt_async").map(({ body }) => body), [{ agent: "build", model, variant: "low", parts: [{ type: "text", text: "go on" }] }]);
  const order = received.map(({ path }) => path.split("/").at(-1)).filter((name) => name !== "message" && name !== sessionID);
  assert.deepEqual(order, ["abort", "prt_msg_2_2", "prompt_async"]);
  assert.deepEqual(toasts, ["info"]);
});

test("a call keeps the output that it had when it was interrupted", async (t) => {
  const state = { status: "error", input: {}, error: "Tool execution aborted", metadata: { output: "half\n", interrupted: true }, time: { start: 1, end: 2 } };
  const { recovery, messages } = await rig(t, [user("msg_1"), assistant("msg_2", [{ ...running, state }]), assistant("msg_3")]);
  assert.equal(await recovery.failed(sessionID, refusal(orphan)), true);
  assert.deepEqual(messages[1]?.parts[0]?.["state"].metadata, { output: `half\n${cancelledResult}`, interrupted: true });
});

test("a failed message is handled once", async (t) => {
  const { recovery, calls, messages } = await rig(t, [user("msg_1"), assistant("msg_2", [running])]);
  const both = await Promise.all([recovery.failed(sessionID, refusal(orphan)), recovery.failed(sessionID, refusal(orphan))]);
  assert.deepEqual(both.sort(), [false, true]);
  messages[1]?.parts.splice(0, 1, assistant("msg_2", [running]).parts[0] as StoredMessage["parts"][0]);
  assert.equal(await recovery.failed(sessionID, refusal(orphan)), false);
  assert.equal(calls("/prompt_async").length, 1);
});

test("after three recoveries in a row the session is left alone until a turn has ended well", async (t) => {
  const { recovery, messages, calls, toasts } = await rig(t, [user("msg_1")]);
  const fail = (id: string) => {
    messages.push(assistant(id, [running]));
    return recovery.failed(sessionID, refusal(orphan));
  };
  assert.deepEqual([await fail("msg_2"), await fail("msg_3"), await fail("msg_4"), await fail("msg_5"), await fail("msg_6")], [true, true, true, false, false]);
  assert.equal(calls("/prompt_async").length, 3);
  assert.deepEqual(toasts, ["info", "info", "info", "warning", "warning"]);
  recovery.ended(sessionID);
  assert.equal(await fail("msg_7"), true);
});

test("thinking is removed from the messages of the refused history and from no others", async (t) => {
  for (const text of [order, disabled]) {
    const thought = { type: "reasoning", text: "plan" };
    const { recovery, messages, calls } = await rig(t, [user("msg_1"), assistant("msg_2", [thought, { type: "text", text: "a" }]), assistant("msg_3")]);
    assert.equal(await recovery.failed(sessionID, refusal(text)), true);
    assert.equal(calls("/prompt_async").length, 1);
    const next = structuredClone([...messages, assistant("msg_4", [thought])]);
    recovery.transform(next as unknown as Parameters<Recovery["transform"]>[0]);
    assert.deepEqual(next.map(({ parts }) => parts.map(({ type }) => type)), [["text"], ["text"], [], ["reasoning"]]);
    assert.equal(messages[1]?.parts[0]?.type, "reasoning", "what OpenCode has stored was changed");
  }
});

test("a session in which nothing can be repaired is not resumed", async (t) => {
  const { recovery, calls } = await rig(t, [user("msg_1"), assistant("msg_2", [{ type: "text", text: "a" }])]);
  assert.equal(await recovery.failed(sessionID, refusal(orphan)), false);
  assert.equal(await recovery.failed(sessionID, refusal(order)), false);
  assert.equal(calls("/prompt_async").length, 0);
});

test("without auto_resume the session is repaired only", async (t) => {
  const { recovery, messages, calls } = await rig(t, [user("msg_1"), assistant("msg_2", [running])], { auto_resume: false });
  assert.equal(await recovery.failed(sessionID, refusal(orphan)), true);
  assert.equal(messages[1]?.parts[0]?.["state"].error, cancelledResult);
  assert.equal(calls("/prompt_async").length, 0);
});

test("the session of a sub-agent is repaired without a toast and not resumed", async (t) => {
  const { recovery, calls, toasts } = await rig(t, [user("msg_1"), assistant("msg_2", [running])], {}, { parentID: "ses_0" });
  assert.equal(await recovery.failed(sessionID, refusal(orphan)), true);
  assert.equal(calls("/prompt_async").length, 0);
  assert.deepEqual(toasts, []);
});

test("sessions of other providers and other errors are left alone", async (t) => {
  const { recovery, received } = await rig(t, [user("msg_1"), assistant("msg_2", [running], { providerID: "anthropic" })]);
  assert.equal(await recovery.failed(sessionID, refusal("Request contains an invalid argument.")), false);
  assert.equal(received.length, 0);
  assert.equal(await recovery.failed(sessionID, refusal(orphan)), false);
  assert.deepEqual(received.map(({ method }) => method), ["GET"]);
});

test("a failure of OpenCode itself ends the recovery and is logged", async (t) => {
  for (const failing of ["/message", "/part/", "/abort", "/prompt_async"]) {
    const { recovery, state, calls } = await rig(t, [user("msg_1"), assistant("msg_2", [running])]);
    state.failing = failing;
    assert.equal(await recovery.failed(sessionID, refusal(orphan)), false, failing);
    await until(() => calls("/log").length === 1);
    assert.equal(calls("/log")[0]?.body.level, "warn");
  }
});
