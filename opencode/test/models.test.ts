import assert from "node:assert/strict";
import { test } from "node:test";

import { endpoint, listModels, provider, type LiveModel } from "../src/models.js";
import { serve } from "./rig.js";

const list = {
  models: [
    { name: "models/claude-sonnet-4-6", displayName: "Claude Sonnet 4.6", inputTokenLimit: 200000, outputTokenLimit: 64000, supportedGenerationMethods: ["generateContent", "countTokens"], thinking: true },
    { name: "models/gpt-oss-120b-medium", inputTokenLimit: 114000, outputTokenLimit: 32768, supportedGenerationMethods: ["generateContent"] },
    { name: "models/gemini-embedding-001", inputTokenLimit: 2048, outputTokenLimit: 1, supportedGenerationMethods: ["embedContent"] },
  ],
};
const claude: LiveModel = { id: "claude-sonnet-4-6", name: "Claude Sonnet 4.6", context: 200000, output: 64000, thinking: true };
const gemini: LiveModel = { id: "gemini-2.5-pro", name: "Gemini 2.5 Pro", context: 1048576, output: 65536, thinking: true };
const oss: LiveModel = { id: "gpt-oss-120b-medium", name: "gpt-oss-120b-medium", context: 114000, output: 32768, thinking: false };
const soon = () => AbortSignal.timeout(30_000);

test("models that can chat are listed, with the key as bearer", async (t) => {
  const { url, received } = await serve(t, () => ({ body: list }));
  assert.deepEqual(await listModels({ url, key: "secret" }, soon()), [claude, oss]);
  assert.equal(received[0]?.path, "/v1beta/models");
  assert.equal(received[0]?.headers.authorization, "Bearer secret");
  await listModels({ url, key: "" }, soon());
  assert.equal(received[1]?.headers.authorization, undefined);
});

test("errors say what to do and do not repeat the key", async (t) => {
  const closed = await serve(t, () => ({}));
  for (const [status, body, wanted] of [
    [401, {}, /refuses the key: set PERIGEE_KEY/],
    [403, {}, /refuses the key/],
    [200, { hello: 1 }, /does not answer like perigee \(status 200\): set PERIGEE_URL/],
    [500, list, /does not answer like perigee \(status 500\)/],
  ] as const) {
    const { url } = await serve(t, () => ({ status, body }));
    await assert.rejects(listModels({ url, key: "secret" }, soon()), (error: Error) => wanted.test(error.message) && !error.message.includes("secret"));
  }
  await assert.rejects(listModels({ url: closed.url.replace(/\d+$/, "1"), key: "" }, soon()), /does not answer at http:\/\/127\.0\.0\.1:1: run "perigee serve"/);
});

test("a redirect is not followed, because the key would be", async (t) => {
  const elsewhere = await serve(t, () => ({ body: list }));
  const { url } = await serve(t, () => ({ status: 302, headers: { location: elsewhere.url } }));
  await assert.rejects(listModels({ url, key: "secret" }, soon()), /does not answer like perigee \(status 302\)/);
  assert.equal(elsewhere.received.length, 0);
});

test("a perigee that does not answer in time is one that does not run", async () => {
  await assert.rejects(listModels({ url: "http://127.0.0.1:1", key: "" }, AbortSignal.abort()), /run "perigee serve"/);
});

test("the address comes from the settings, opencode.json or the default, and a key only from the same place", () => {
  const configured = { options: { baseURL: "http://far:8741/v1beta/", apiKey: "config" } };
  assert.deepEqual(endpoint({ url: "", key: "" }, undefined), { url: "http://127.0.0.1:8741", key: "" });
  assert.deepEqual(endpoint({ url: "", key: "own" }, undefined), { url: "http://127.0.0.1:8741", key: "own" });
  assert.deepEqual(endpoint({ url: "", key: "own" }, configured), { url: "http://far:8741", key: "config" });
  assert.deepEqual(endpoint({ url: "", key: "own" }, { options: { baseURL: "http://far:8741/v1" } }), { url: "http://far:8741", key: "" });
  assert.deepEqual(endpoint({ url: "http://near:1/", key: "own" }, configured), { url: "http://near:1", key: "own" });
  assert.deepEqual(endpoint({ url: "http://near:1", key: "" }, configured), { url: "http://near:1", key: "" });
  assert.deepEqual(endpoint({ url: "http://near:1", key: "" }, { options: { apiKey: "config" } }), { url: "http://near:1", key: "" });
  assert.deepEqual(endpoint({ url: "http://far:8741", key: "" }, configured), { url: "http://far:8741", key: "config" }); // the same address
  assert.deepEqual(endpoint({ url: "", key: "" }, { options: { apiKey: "config" } }), { url: "http://127.0.0.1:8741", key: "config" });
});

test("each model has its limits, its package and the address that the package needs", () => {
  const made = provider([claude, gemini, oss], { url: "http://h:1", key: "" });
  assert.deepEqual(made.options, { apiKey: "any" });
  assert.deepEqual(made.models?.[claude.id], {
    name: "Claude Sonnet 4.6", tool_call: true, reasoning: true, limit: { context: 200000, output: 64000 },
    attachment: true, modalities: { input: ["text", "image", "pdf"], output: ["text"] },
    variants: { low: { thinking: { type: "adaptive" }, effort: "low" }, medium: { thinking: { type: "adaptive" }, effort: "medium" } },
    provider: { npm: "@ai-sdk/anthropic", api: "http://h:1/v1" },
  });
  assert.deepEqual(made.models?.[oss.id], {
    name: "gpt-oss-120b-medium", tool_call: true, reasoning: false, limit: { context: 114000, output: 32768 },
    provider: { npm: "@ai-sdk/google", api: "http://h:1/v1beta" },
  });
  const { variants } = made.models?.[gemini.id] as { variants?: unknown };
  assert.deepEqual(variants, {
    low: { thinkingConfig: { includeThoughts: true, thinkingLevel: "low" } }, medium: { thinkingConfig: { includeThoughts: true, thinkingLevel: "medium" } },
  });
});

test("a model with unknown limits has none", () => {
  const made = provider([{ ...gemini, context: 0, output: 0 }], { url: "http://h:1", key: "" });
  assert.equal(made.models?.[gemini.id]?.limit, undefined);
});

test("what opencode.json says about the provider and its models wins", () => {
  const made = provider([claude, gemini], { url: "http://h:1", key: "k" }, {
    name: "mine", npm: "@ai-sdk/openai-compatible", blacklist: ["x"],
    options: { baseURL: "http://h:1/v1", apiKey: "k", timeout: 5 },
    models: {
      [gemini.id]: { name: "my Gemini", limit: { context: 1000, output: 100 } },
      fast: { name: "an alias" },
      [claude.id]: { provider: { npm: "@ai-sdk/google" } },
    },
  });
  assert.equal(made.name, "mine");
  assert.deepEqual(made.blacklist, ["x"]);
  assert.deepEqual(made.options, { apiKey: "k", timeout: 5 });
  assert.equal(made.models?.[gemini.id]?.name, "my Gemini");
  assert.deepEqual(made.models?.[gemini.id]?.limit, { context: 1000, output: 100 });
  assert.equal(made.models?.[gemini.id]?.reasoning, true);
  assert.deepEqual(made.models?.["fast"], { name: "an alias", provider: { npm: "@ai-sdk/openai-compatible", api: "http://h:1/v1" } });
  assert.deepEqual(made.models?.[claude.id]?.provider, { npm: "@ai-sdk/google", api: "http://h:1/v1beta" });
});
