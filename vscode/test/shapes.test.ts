import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { classify } from "../src/agent/answer.js";
import { follow } from "../src/agent/follow.js";
import { LanguageServer } from "../src/agent/languageserver.js";
import { availableModels, chooseModel, configuredModels, nameOf } from "../src/agent/models.js";
import { readTurn, termination } from "../src/agent/steps.js";

// Values that a member may have where another was expected.
const odd: unknown[] = [undefined, null, true, 0, -1, 1e99, "", "x", [], [null], {}, { text: {} }, [[{}]]];

test("steps with names or numbers of enums mean the same", () => {
  const input = { userInput: { userResponse: "p" } };
  const named = [
    { ...input, type: "CORTEX_STEP_TYPE_USER_INPUT", status: "CORTEX_STEP_STATUS_DONE" },
    { type: "CORTEX_STEP_TYPE_PLANNER_RESPONSE", status: "CORTEX_STEP_STATUS_DONE", plannerResponse: { response: "a", stopReason: "STOP_REASON_STOP_PATTERN" } },
  ];
  const numbered = [{ ...input, type: 14, status: 3 }, { type: "15", status: 3, plannerResponse: { modifiedResponse: "a", stopReason: 2 } }];
  const untyped = [{ ...input, status: 3 }, { status: 3, plannerResponse: { response: "a", stopReason: 2 } }];
  for (const steps of [named, numbered, untyped]) {
    const { text, complete, pending, answers, waiting, failure, cancelled } = readTurn(steps);
    assert.deepEqual({ text, complete, pending, answers, waiting, failure, cancelled }, {
      text: "a", complete: true, pending: false, answers: 1, waiting: [], failure: undefined, cancelled: false,
    });
  }
});

test("what the agent waits for is said, also for a subagent", () => {
  const waiting = (step: object) => readTurn([{ type: 14, status: 3 }, { status: 9, ...step }]).waiting;
  assert.deepEqual(waiting({ runCommand: { commandLine: "ls" } }), ["permission to run ls"]);
  assert.deepEqual(waiting({ viewFile: { filePermissionRequest: { absolutePathUri: "file:///a" } } }), ["permission for file:///a"]);
  assert.deepEqual(waiting({ mcpTool: { serverName: "s", toolCall: { name: "t" } } }), ["permission to call s/t"]);
  assert.deepEqual(waiting({ askQuestion: { questions: [{ question: "Which?", options: [{ text: "a" }, { text: "b" }] }] } }), ["Which? (a, b)"]);
  assert.deepEqual(waiting({ readUrlContent: { url: "http://x" } }), ["a decision about http://x"]);
  assert.deepEqual(waiting({}), ["a decision in the IDE"]);
  assert.deepEqual(waiting({ status: 2, subtrajectory: { steps: [{ status: "CORTEX_STEP_STATUS_WAITING", runCommand: {} }] } }), ["permission to run a command"]);
  assert.deepEqual(waiting({ plannerResponse: {} }), [], "the step after it waits");
});

test("errors get a class", () => {
  for (const [error, expected] of [
    [{ errorCode: 429, userErrorMessage: "slow down" }, "rate_limited"],
    [{ errorCode: 8 }, "rate_limited"],
    [{ shortError: "HTTP 503 from the cloud" }, "capacity"],
    [{ userErrorMessage: "oh", details: `{"reason":"QUOTA_EXHAUSTED"}`, errorCode: 429 }, "exhausted"],
    [{ errorCode: 401 }, "unauthenticated"],
    [{ fullError: "broken" }, "unavailable"],
    [{}, "unavailable"],
  ] as const) {
    assert.equal(classify(error).class, expected, JSON.stringify(error));
    assert.notEqual(classify(error).message, "");
  }
});

test("no shape of a step, a model or an error fails", () => {
  const members = ["type", "status", "metadata", "userInput", "plannerResponse", "errorMessage", "error", "runCommand", "askQuestion", "subtrajectory", "requestedInteraction", "notifyUser"];
  let read = 0;
  for (const value of odd) {
    for (const member of members) {
      for (const status of [9, "CORTEX_STEP_STATUS_DONE", value]) {
        const turn = readTurn([value, { status, [member]: value }, { status, [member]: { steps: value, error: value, items: value, questions: value, modelUsage: value } }]);
        assert.equal(typeof turn.text, "string");
        assert.equal(typeof termination({ [member]: value, terminationReason: value, lastStepIdx: value }, turn, 0), "string");
        read++;
      }
    }
    for (const answer of [{ models: value }, { response: value }, { response: { models: { a: value, b: { model: value } } } }, { clientModelConfigs: value }, { userStatus: value }, { clientModelConfigs: [value] }]) {
      assert.ok(Array.isArray(availableModels(answer)) && Array.isArray(configuredModels(answer)));
    }
    assert.equal(typeof classify({ errorCode: value, details: value, rpcErrorDetails: value }).class, "string");
  }
  assert.equal(read, odd.length * members.length * 3);
});

test("the default model is recommended, has quota, and is a Flash model if possible", () => {
  const config = (label: string, more: object = {}) => ({ label, modelOrAlias: { model: `MODEL_${label}` }, ...more });
  const reset = "2026-11-16T10:00:00Z";
  const models = configuredModels({
    clientModelConfigs: [
      config("Pro"), config("Flash X", { quotaInfo: { resetTime: reset }, isRecommended: true }), config("Best", { isRecommended: true, quotaInfo: {} }),
      config("Flash Y", { quotaInfo: { remainingFraction: 0.5 } }), config("Off", { isRecommended: true, disabled: true }), { label: "no model" },
    ],
  });
  assert.deepEqual(models.map((each) => each.label), ["Pro", "Flash X", "Best", "Flash Y"]);
  assert.equal(chooseModel(models, undefined)?.label, "Best");
  assert.equal(chooseModel(models, "flash-y")?.label, "Flash Y");
  assert.equal(chooseModel(models, "model_pro")?.label, "Pro");
  assert.equal(chooseModel(models, "Off"), undefined);
  assert.equal(chooseModel([], undefined), undefined);
  const [byNumber] = availableModels({ availableModels: { defaultAgentModelId: "b", models: { a: { model: 7 }, b: { model: "8", displayName: "B" } } } });
  assert.deepEqual([byNumber && nameOf(byNumber), byNumber?.value], ["b", 8]);
});

// serverOf is a language server whose answers are given.
async function serverOf(t: TestContext, answer: (method: string) => unknown): Promise<LanguageServer> {
  const http = createServer((request, response) => {
    const value = answer((request.url ?? "").split("/").at(-1) ?? "");
    response.writeHead(200).end(typeof value === "string" ? value : JSON.stringify(value));
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  t.after(() => http.close());
  const { port } = http.address() as AddressInfo;
  return new LanguageServer(async () => ({ http: port, https: 0, csrf: "t" }));
}

test("a conversation that shows other things than expected ends with a failure, not with a crash", async (t) => {
  const never = new AbortController().signal;
  const options = { conversation: "c", prompt: "p", from: 0, deadline: undefined, left: never, cancelled: never, progress: () => undefined };
  const times = { busy: 1, calm: 1, begin: 50, patience: 50, cancel: 50 };
  for (const value of ["", "no JSON", "[]", { trajectory: [] }, { trajectory: { steps: [null, 7] }, status: {}, numTotalSteps: "9" }, {}]) {
    const server = await serverOf(t, () => value);
    const answer = await follow(server, options, times);
    assert.deepEqual([answer.status, answer.error?.class, answer.text], ["failed", "unavailable", ""], JSON.stringify(value));
    await server.conversations().catch(() => undefined);
    assert.deepEqual(await server.models(), []);
  }
});

test("a language server that repeats its pages has an end", async (t) => {
  const server = await serverOf(t, (method) => (method === "GetCascadeTrajectory" ? { numTotalSteps: 1e9, trajectory: {} } : { steps: [{}, {}] }));
  assert.equal((await server.read("c", 0)).steps.length, 400);
});
