import assert from "node:assert/strict";
import * as http from "node:http";
import * as net from "node:net";
import { test, type TestContext } from "node:test";

import { codes, RpcError } from "../src/bridge/errors.js";
import { Server, type ServerLimits } from "../src/bridge/server.js";
import type { Method } from "../src/bridge/session.js";
import { atEnd, Client, eventually } from "./rig.js";

const token = "a-token-of-the-test";
const bearer = { Authorization: `Bearer ${token}` };

interface Rig {
  readonly server: Server;
  readonly problems: string[];
  readonly counts: number[];
  connect(headers?: Record<string, string>, where?: string): Promise<Client>;
  greeted(): Promise<Client>;
}

async function rig(t: TestContext, methods: Record<string, Method> = {}, limits: Partial<ServerLimits> = {}): Promise<Rig> {
  const problems: string[] = [];
  const counts: number[] = [];
  const all = new Map<string, Method>(Object.entries({ hello: () => ({ version: 1 }), ...methods }));
  const server = await Server.listen({
    token, methods: all, limits, report: (problem) => problems.push(problem), clientsChanged: (count) => counts.push(count),
  });
  atEnd(t, () => server.close());
  const connect = (headers: Record<string, string> = bearer, where = "/") => Client.connect(t, server.port, headers, where);
  const greeted = async () => {
    const client = await connect();
    await client.call("hello", { version: 1 });
    return client;
  };
  return { server, problems, counts, connect, greeted };
}

test("only the token opens a connection", async (t) => {
  const { server, connect, problems, greeted } = await rig(t);
  const wrong: Record<string, string>[] = [
    {}, { Authorization: "" }, { Authorization: token }, { Authorization: "Bearer" }, { Authorization: `Bearer ${token}x` },
    { Authorization: `Bearer ${token.slice(1)}` }, { Authorization: `Basic ${token}` }, { Authorization: `Bearer ${token} ${token}` },
  ];
  for (const headers of wrong) {
    await assert.rejects(connect(headers), { message: "status 401" });
  }
  await assert.rejects(connect({ ...bearer, Origin: "http://127.0.0.1" }), { message: "status 403" });
  await assert.rejects(connect({ ...bearer, Origin: "" }), { message: "status 403" });
  await assert.rejects(connect({ ...bearer, Origin: "vscode-file://vscode-app" }), { message: "status 403" });
  await assert.rejects(connect({ ...bearer, Host: `example.com:${server.port}` }), { message: "status 403" });
  await assert.rejects(connect({ ...bearer, Host: "127.0.0.1" }), { message: "status 403" });
  await assert.rejects(connect(bearer, "/other"), { message: "status 404" });
  assert.equal(problems.length, wrong.length + 6);
  assert.ok(!problems.join().includes(token));
  await greeted();
  await connect({ ...bearer, Host: `localhost:${server.port}` });
});

test("a plain HTTP request is answered without a body", async (t) => {
  const { server } = await rig(t);
  const status = (headers: Record<string, string>) =>
    new Promise<number | undefined>((resolve, reject) => {
      http.get({ host: "127.0.0.1", port: server.port, headers, agent: false }, (response) => resolve(response.resume().statusCode)).on("error", reject);
    });
  assert.equal(await status({}), 401);
  assert.equal(await status({ Origin: "http://example.com" }), 403);
  assert.equal(await status(bearer), 426);
});

test("it listens on 127.0.0.1 only", async (t) => {
  const { server } = await rig(t);
  await assert.rejects(
    new Promise((resolve, reject) => net.connect(server.port, "127.0.0.2", () => resolve(undefined)).on("error", reject)),
    { code: "ECONNREFUSED" },
  );
});

test("hello comes first", async (t) => {
  const { connect } = await rig(t, { echo: () => ({ ok: true }) });
  const client = await connect();
  assert.equal((await client.refused("echo")).code, codes.invalidRequest);
  assert.equal((await client.refused("nothing")).code, codes.invalidRequest);
  assert.deepEqual(await client.call("hello", {}), { version: 1 });
  assert.deepEqual(await client.call("echo"), { ok: true });
  assert.equal((await client.refused("hello", {})).code, codes.invalidRequest);
  assert.equal((await client.refused("nothing")).code, codes.unknownMethod);
});

test("a hello that is refused is no hello", async (t) => {
  const { connect } = await rig(t, {
    hello: (params) => {
      if (params.integer("version", 0, 9) !== 1) {
        throw new RpcError(codes.version, "version 1 is spoken here");
      }
      return {};
    },
    echo: () => ({}),
  });
  const client = await connect();
  assert.equal((await client.refused("hello", { version: 2 })).code, codes.version);
  assert.equal((await client.refused("echo")).code, codes.invalidRequest);
  await client.call("hello", { version: 1 });
  await client.call("echo");
});

test("a client without hello is disconnected", async (t) => {
  const { connect } = await rig(t, {}, { hello: 20 });
  const client = await connect();
  await eventually("the end of the connection", () => client.closed !== undefined);
  assert.deepEqual(client.closed, { code: 1008, reason: "no hello" });
});

test("what is no request is answered with an error, and the connection stays", async (t) => {
  const { greeted } = await rig(t, { echo: () => ({}) });
  const client = await greeted();
  const wrong: [string, number, unknown][] = [
    ["{", codes.parse, null],
    ["", codes.parse, null],
    [`[{"jsonrpc":"2.0","id":1,"method":"echo"}]`, codes.invalidRequest, null],
    ["[]", codes.invalidRequest, null],
    ["null", codes.invalidRequest, null],
    [`{"id":"a","method":"echo"}`, codes.invalidRequest, "a"],
    [`{"jsonrpc":"2.0","id":"b"}`, codes.invalidRequest, "b"],
    [`{"jsonrpc":"2.0","id":{},"method":"echo"}`, codes.invalidRequest, null],
    [`{"jsonrpc":"2.0","id":null,"method":"echo"}`, codes.invalidRequest, null],
    [`{"jsonrpc":"2.0","id":"c","method":"echo","params":[1]}`, codes.badParams, "c"],
    [`{"jsonrpc":"2.0","id":"d","method":"__proto__"}`, codes.unknownMethod, "d"],
    [`{"jsonrpc":"2.0","id":"e","result":{}}`, codes.invalidRequest, "e"],
  ];
  for (const [text, code, id] of wrong) {
    const before = client.stray.length;
    client.socket.send(text);
    await eventually(`an answer to ${text}`, () => client.stray.length > before);
    const answer = client.stray[before];
    assert.equal(answer?.["id"], id, text);
    assert.equal((answer?.["error"] as { code: number }).code, code, text);
  }
  client.socket.send(`{"jsonrpc":"2.0","method":"echo"}`);
  await client.call("echo");
  assert.equal(client.stray.length, wrong.length);
});

test("messages are texts of at most 16 MiB", async (t) => {
  const { server, greeted } = await rig(t, { length: (params) => ({ length: params.string("text").length }) });
  const whole = await greeted();
  const room = (16 << 20) - 200;
  assert.deepEqual(await whole.call("length", { text: "x".repeat(room) }), { length: room });
  const large = await greeted();
  large.socket.send(JSON.stringify({ jsonrpc: "2.0", id: 9, method: "length", params: { text: "x".repeat(16 << 20) } }));
  await eventually("the end of the connection", () => large.closed !== undefined);
  assert.equal(large.closed?.code, 1009);
  const binary = await greeted();
  binary.socket.send(Buffer.from(`{"jsonrpc":"2.0","id":9,"method":"length"}`), { binary: true });
  await eventually("the end of the connection", () => binary.closed !== undefined);
  assert.equal(binary.closed?.code, 1003);
  await whole.call("length", { text: "" });
  await eventually("one client", () => server.clients === 1);
});

test("a result that is too large is an error", async (t) => {
  const { greeted } = await rig(t, { large: () => ({ text: "x".repeat(2000) }) }, { message: 1000 });
  assert.equal((await (await greeted()).refused("large")).code, codes.internal);
});

test("an unexpected failure is reported, and its text stays here", async (t) => {
  const { greeted, problems } = await rig(t, { fails: () => { throw new Error("a detail"); } });
  const error = await (await greeted()).refused("fails");
  assert.equal(error.code, codes.internal);
  assert.ok(!error.message.includes("a detail"));
  assert.ok(problems.join().includes("a detail"));
});

test("requests at once are limited, per client", async (t) => {
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const { greeted } = await rig(t, { wait: async () => (await gate, {}) }, { requests: 2 });
  const client = await greeted();
  const waiting = [client.call("wait"), client.call("wait")];
  assert.equal((await client.refused("wait")).code, codes.busy);
  const other = (await greeted()).call("wait");
  release();
  await Promise.all([...waiting, other]);
  await client.call("wait");
});

test("clients are limited, and a place is free again after one has left", async (t) => {
  const { server, connect, counts } = await rig(t, {}, { clients: 2 });
  const first = await connect();
  await connect();
  await assert.rejects(connect(), { message: "status 503" });
  first.socket.close();
  await eventually("a free place", () => server.clients === 1);
  await connect();
  assert.deepEqual(counts, [1, 2, 1, 2]);
});

test("the end of a connection ends its requests", async (t) => {
  let signal: AbortSignal | undefined;
  const { greeted } = await rig(t, { wait: (_params, caller) => ((signal = caller.signal), new Promise(() => undefined)) });
  const client = await greeted();
  client.request("wait").catch(() => undefined);
  await eventually("the request", () => signal !== undefined);
  assert.equal(signal?.aborted, false);
  client.socket.terminate();
  await eventually("the end of the request", () => signal?.aborted === true);
});

test("clients are pinged, and one that does not answer is disconnected", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const { greeted, server } = await rig(t, { nothing: () => ({}) }, { ping: 30 });
  const client = await greeted();
  let pings = 0;
  client.socket.on("ping", () => pings++);
  for (let sent = 1; sent <= 3; sent++) {
    t.mock.timers.tick(30);
    await eventually(`ping ${sent}`, () => pings === sent);
    await client.call("nothing", {}); // the server reads it after the answer to the ping
  }
  client.socket.pause();
  t.mock.timers.tick(60);
  await eventually("the end of the connection", () => server.clients === 0);
});

test("close disconnects clients", async (t) => {
  const { greeted, server } = await rig(t);
  const client = await greeted();
  server.close();
  await eventually("the end of the connection", () => client.closed !== undefined);
  await assert.rejects(Client.connect(t, server.port, bearer), { code: "ECONNREFUSED" });
});
