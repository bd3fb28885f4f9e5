import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, test } from "node:test";

import * as vscode from "vscode";

import { type Answer, baseURL, Client, PerigeeError } from "../src/models/client.js";
import { countable, information, request } from "../src/models/convert.js";
import { Key, problemOf } from "../src/models/key.js";
import { editorError, Provider } from "../src/models/provider.js";
import { events } from "../src/models/sse.js";
import { estimate, TokenCounter } from "../src/models/tokens.js";

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) {
    await cleanup();
  }
});

// serve runs a server that answers as perigee does, until the test ends.
async function serve(handler: Handler): Promise<string> {
  const server = createServer((incoming, response) => {
    let body = "";
    incoming.on("data", (chunk: Buffer) => (body += chunk.toString()));
    incoming.on("end", () => handler(incoming, response, body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(
    () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function collect(answer: AsyncIterable<Answer>): Promise<Answer[]> {
  const found: Answer[] = [];
  for await (const piece of answer) {
    found.push(piece);
  }
  return found;
}

function frames(...list: object[]): string {
  return list.map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
}

const never = new AbortController().signal;
const noToken = { isCancellationRequested: false, onCancellationRequested: () => ({ dispose: () => undefined }) } as vscode.CancellationToken;
const body = { model: "m", max_tokens: 10, messages: [] };

async function* chunks(...parts: string[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    yield new TextEncoder().encode(part);
  }
}

test("events are read across chunks, with all line ends, comments and several data lines", async () => {
  const stream = "event: a\r\ndata: 1\r\n\r\n: keep-alive\n\ndata:2\ndata: 3\n\ndata: ü\r\rdata: cut";
  const bytes = new TextEncoder().encode(stream);
  const want = [
    { event: "a", data: "1" },
    { event: "", data: "2\n3" },
    { event: "", data: "ü" },
  ];
  for (let cut = 0; cut <= bytes.length; cut++) {
    const found = [];
    for await (const event of events(
      (async function* () {
        yield bytes.subarray(0, cut);
        yield bytes.subarray(cut);
      })(),
    )) {
      found.push(event);
    }
    assert.deepEqual(found, want, `cut at ${cut}`);
  }
  const tooLarge = events(chunks("data: ", "x".repeat(65 << 20)));
  await assert.rejects(tooLarge.next(), /larger than 64 MiB/);
});

test("a streamed answer becomes texts, calls and an end", async () => {
  let sent: Record<string, unknown> = {};
  let headers: IncomingMessage["headers"] = {};
  const url = await serve((incoming, response, text) => {
    sent = JSON.parse(text) as Record<string, unknown>;
    headers = incoming.headers;
    response.writeHead(200, { "content-type": "text/event-stream", "x-perigee-call": "c1", "x-perigee-notes": "dropped seed" });
    response.end(
      frames(
        { type: "message_start", message: {} },
        { type: "ping" },
        { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } },
        { type: "content_block_stop", index: 0 },
        { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "he" } },
        { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "llo" } },
        { type: "content_block_stop", index: 1 },
        { type: "content_block_start", index: 2, content_block: { type: "tool_use", id: "t1", name: "get", input: {} } },
        { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: '{"a":' } },
        { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: "1}" } },
        { type: "content_block_stop", index: 2 },
        { type: "content_block_start", index: 3, content_block: { type: "tool_use", id: "t2", name: "now", input: {} } },
        { type: "content_block_stop", index: 3 },
        { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { input_tokens: 3, output_tokens: 4 } },
        { type: "message_stop" },
      ),
    );
  });
  const client = new Client({ url, key: "k", userAgent: "test/1" });
  const notes: string[] = [];
  const found = await collect(client.stream(body, never, (info) => notes.push(`${info.call} ${info.notes}`)));
  assert.deepEqual(found, [
    { type: "text", text: "he" },
    { type: "text", text: "llo" },
    { type: "call", id: "t1", name: "get", input: { a: 1 } },
    { type: "call", id: "t2", name: "now", input: {} },
    { type: "end", reason: "tool_use", input: 3, output: 4 },
  ]);
  assert.deepEqual(notes, ["c1 dropped seed"]);
  assert.equal(sent["stream"], true);
  assert.equal(headers.authorization, "Bearer k");
  assert.equal(headers["user-agent"], "test/1");
});

test("errors have perigee's message and class, and a next step if perigee is not there", async (t) => {
  const cases: { name: string; handler: Handler; want: RegExp; errorClass: string }[] = [
    {
      name: "before the answer",
      handler: (_, response) => {
        response.writeHead(404, { "x-perigee-class": "not_found", "content-type": "application/json" });
        response.end('{"error":{"message":"no model \\"m\\"; the nearest name is n","details":{"class":"not_found"}}}');
      },
      want: /^no model "m"; the nearest name is n$/,
      errorClass: "not_found",
    },
    {
      name: "in the answer",
      handler: (_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.end(frames({ type: "error", error: { message: "the provider broke off; ask again", details: { class: "unavailable" } } }));
      },
      want: /^the provider broke off; ask again$/,
      errorClass: "unavailable",
    },
    {
      name: "an answer without its end",
      handler: (_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.end(frames({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "a" } }));
      },
      want: /broke off/,
      errorClass: "unavailable",
    },
    {
      name: "a connection that is cut",
      handler: (_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(": here\n\n", () => response.destroy());
      },
      want: /cannot be reached/,
      errorClass: "unavailable",
    },
    {
      name: "another program",
      handler: (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>hello"),
      want: /but not as perigee does; check the setting perigee.url/,
      errorClass: "unavailable",
    },
    {
      name: "a redirect, which must not get the key",
      handler: (_, response) => response.writeHead(307, { location: "http://example.com/" }).end(),
      want: /status 307.*not as perigee/,
      errorClass: "unavailable",
    },
    {
      name: "broken JSON in the answer",
      handler: (_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end("data: {\n\n"),
      want: /not JSON/,
      errorClass: "unavailable",
    },
  ];
  for (const { name, handler, want, errorClass } of cases) {
    await t.test(name, async () => {
      const client = new Client({ url: await serve(handler), userAgent: "test" });
      await assert.rejects(collect(client.stream(body, never, () => undefined)), (error: Error) => {
        assert.ok(error instanceof PerigeeError, String(error));
        assert.match(error.message, want);
        assert.equal(error.errorClass, errorClass);
        return true;
      });
    });
  }
  await t.test("nothing listens", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await new Promise((resolve) => server.close(resolve));
    const client = new Client({ url, userAgent: "test" });
    await assert.rejects(client.models(never), (error: Error) => {
      assert.equal(error.message, `perigee is not running at ${url}; start it with "perigee serve", or change the setting perigee.url`);
      return true;
    });
  });
});

test("a canceled answer ends the connection to perigee", async () => {
  let closed: () => void = () => undefined;
  const gone = new Promise<void>((resolve) => (closed = resolve));
  const url = await serve((_, response) => {
    response.on("close", closed);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(frames({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "a" } }));
  });
  const controller = new AbortController();
  const client = new Client({ url, userAgent: "test" });
  await assert.rejects(async () => {
    for await (const piece of client.stream(body, controller.signal, () => undefined)) {
      assert.equal(piece.type, "text");
      controller.abort();
    }
  });
  await gone;
});

test("the setting perigee.url is read as users write it", () => {
  assert.equal(baseURL("http://127.0.0.1:8741/"), "http://127.0.0.1:8741");
  assert.equal(baseURL(" https://gate.example.com/v1/ "), "https://gate.example.com");
  assert.equal(baseURL("https://gate.example.com/perigee"), "https://gate.example.com/perigee");
  for (const wrong of ["", "127.0.0.1:8741", "file:///etc/passwd", "http://user:pass@host"]) {
    assert.throws(() => baseURL(wrong), PerigeeError, wrong);
  }
});

const model = { id: "gemini-3-flash", name: "Gemini 3 Flash", description: "", owner: "studio", version: "001", input: 1000, output: 100 };

test("a conversation of the editor becomes messages", () => {
  const dropped: string[] = [];
  const image = { mimeType: "image/png", data: new Uint8Array([1, 2, 3]) };
  const messages = [
    { role: 3, content: [new vscode.LanguageModelTextPart("be short")] },
    { role: 1, content: [new vscode.LanguageModelTextPart("look"), image, new vscode.LanguageModelTextPart("")] },
    {
      role: 2,
      content: [
        new vscode.LanguageModelToolCallPart("c1", "get", { a: 1 }),
        new vscode.LanguageModelToolCallPart("c2", "get", { a: 2 }),
        { mimeType: "cache_control", data: new Uint8Array([1]) },
      ],
    },
    { role: 1, content: [new vscode.LanguageModelToolResultPart("c1", [new vscode.LanguageModelTextPart("one"), image])] },
    {
      role: 1,
      content: [
        new vscode.LanguageModelTextPart("go on"),
        new vscode.LanguageModelToolResultPart("c2", [new vscode.LanguageModelPromptTsxPart({ x: 1 })]),
        { mimeType: "audio/wav", data: new Uint8Array([1]) },
      ],
    },
  ] as unknown as vscode.LanguageModelChatRequestMessage[];
  const found = request(
    information(model),
    messages,
    {
      toolMode: vscode.LanguageModelChatToolMode.Required,
      tools: [{ name: "get", description: "gets" }],
      modelOptions: { temperature: 0.5, stop: "END", seed: 7 },
    },
    (what) => dropped.push(what),
  );
  const png = { type: "image", source: { type: "base64", media_type: "image/png", data: "AQID" } };
  assert.deepEqual(found, {
    model: "gemini-3-flash",
    max_tokens: 100,
    system: "be short",
    temperature: 0.5,
    stop_sequences: ["END"],
    messages: [
      { role: "user", content: [{ type: "text", text: "look" }, png] },
      {
        role: "assistant",
        content: [
          { type: "tool_use", id: "c1", name: "get", input: { a: 1 } },
          { type: "tool_use", id: "c2", name: "get", input: { a: 2 } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "c1", content: [{ type: "text", text: "one" }, png] },
          { type: "tool_result", tool_use_id: "c2", content: [{ type: "text", text: '{"x":1}' }] },
          { type: "text", text: "go on" },
        ],
      },
    ],
    tools: [{ name: "get", description: "gets", input_schema: { type: "object", properties: {} } }],
    tool_choice: { type: "any" },
  });
  assert.deepEqual(dropped, ["data of type audio/wav", "the option seed"]);
  assert.equal(countable(messages[2]!)[0]?.role, "user");
  assert.equal(information(model).maxInputTokens, 900);
});

test("the list has what can chat, and its absence is said once", async () => {
  let up = false;
  const url = await serve((_, response) => {
    if (!up) {
      response.destroy();
      return;
    }
    response.end(
      JSON.stringify({
        models: [
          { name: "models/a", displayName: "A", inputTokenLimit: 10, outputTokenLimit: 5, supportedGenerationMethods: ["generateContent"] },
          { name: "models/embedding", supportedGenerationMethods: ["embedContent"] },
        ],
      }),
    );
  });
  const logged: string[] = [];
  const reported: string[] = [];
  const shown: string[] = [];
  const log = { info: (text: string) => logged.push(text), warn: (text: string) => logged.push(text), debug: () => undefined };
  const provider = new Provider({
    client: async () => new Client({ url, userAgent: "test" }),
    log,
    report: (text) => reported.push(text),
    explain: (error) => shown.push(error.message),
  });
  let changes = 0;
  provider.onDidChangeLanguageModelChatInformation(() => changes++);
  for (let i = 0; i < 3; i++) {
    assert.deepEqual(await provider.provideLanguageModelChatInformation({ silent: true }, noToken), []);
  }
  assert.equal(logged.length, 1);
  assert.match(logged[0]!, /no chat models: perigee at .* cannot be reached/);
  assert.equal(shown.length, 0);
  await provider.provideLanguageModelChatInformation({ silent: false }, noToken);
  assert.equal(shown.length, 1);
  provider.refreshIfMissing();
  assert.equal(changes, 1);
  up = true;
  const found = await provider.provideLanguageModelChatInformation({ silent: true }, noToken);
  assert.deepEqual(found.map((each) => each.id), ["a"]);
  provider.refreshIfMissing();
  assert.equal(changes, 1);
  assert.match(reported.at(-1)!, /^1 models of http/);
});

test("token counts are cached, limited, and estimated when perigee does not answer", async () => {
  let asked = 0;
  let most = 0;
  let open = 0;
  let up = true;
  const url = await serve((_, response) => {
    asked++;
    most = Math.max(most, ++open);
    setImmediate(() => {
      open--;
      if (up) {
        response.end('{"input_tokens":7}');
      } else {
        response.destroy();
      }
    });
  });
  let now = 0;
  const counter = new TokenCounter(async () => new Client({ url, userAgent: "test" }), () => now);
  const counts = await Promise.all(Array.from({ length: 40 }, (_, i) => counter.count("m", countable(`text ${i}`), never)));
  assert.deepEqual(new Set(counts), new Set([7]));
  assert.ok(most <= 4, `${most} at once`);
  assert.equal(asked, 40);
  await counter.count("m", countable("text 3"), never);
  assert.equal(asked, 40);
  assert.equal(await counter.count("m", countable({ role: 1, name: undefined, content: [] }), never), 0);
  up = false;
  assert.equal(await counter.count("m", countable("12345678"), never), 2);
  const before = asked;
  assert.equal(await counter.count("m", countable("123456789"), never), 3);
  assert.equal(asked, before);
  up = true;
  now = 31_000;
  assert.equal(await counter.count("m", countable("123456789"), never), 7);
  assert.equal(estimate([{ role: "user", content: [{ type: "image", source: { type: "base64", media_type: "", data: "" } }] }]), 258);
});

test("a key is given to the origin that it was entered for", async () => {
  const stored = new Map<string, string>();
  const secrets = {
    get: async (name: string) => stored.get(name),
    store: async (name: string, value: string) => void stored.set(name, value),
    delete: async (name: string) => void stored.delete(name),
  } as unknown as vscode.SecretStorage;
  const key = new Key(secrets);
  assert.equal(await key.get("http://127.0.0.1:8741"), undefined);
  await key.set("http://127.0.0.1:8741", "secret");
  assert.equal(await key.get("http://127.0.0.1:8741/"), "secret");
  assert.equal(await key.get("http://127.0.0.1:8742"), undefined);
  assert.equal(await key.get("https://127.0.0.1:8741"), undefined);
  await key.set("http://127.0.0.1:8741", "");
  assert.equal(await key.get("http://127.0.0.1:8741"), undefined);
  assert.equal(problemOf("abc"), undefined);
  assert.ok(problemOf("a b"));
});

test("classes of errors are those that callers of the editor look for", () => {
  const code = (errorClass: string) => (editorError(new PerigeeError("m", errorClass)) as { code?: string }).code;
  assert.equal(code("not_found"), "NotFound");
  assert.equal(code("unauthenticated"), "NoPermissions");
  assert.equal(code("exhausted"), "Blocked");
  assert.equal(code("unavailable"), undefined);
});
