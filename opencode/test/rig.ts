import { createOpencodeClient } from "@opencode-ai/sdk";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: any;
}

// serve answers on a port of this machine until the test ends, and keeps what it receives.
export async function serve(t: TestContext, answer: (request: Received) => { status?: number; headers?: Record<string, string>; body?: unknown }) {
  const received: Received[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    let text = "";
    for await (const piece of request) {
      text += piece;
    }
    const path = (request.url ?? "").replace(/\?.*/, "");
    const got = { method: request.method ?? "", path, headers: request.headers, body: text === "" ? undefined : JSON.parse(text) };
    received.push(got);
    const { status = 200, headers, body } = answer(got);
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(body === undefined ? "" : JSON.stringify(body));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  }));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

// directory is an empty one, which is removed after the test.
export function directory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "perigee-opencode-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface StoredMessage {
  info: { id: string; sessionID: string; role: string; [member: string]: unknown };
  parts: { id: string; type: string; [member: string]: any }[];
}

// openCode is the part of OpenCode's server that the plugin uses, with one session, and the real client for it.
export async function openCode(t: TestContext, messages: StoredMessage[], session: object = {}) {
  const state = { failing: "" }; // part of a path that is answered with 500
  const { url, received } = await serve(t, ({ method, path, body }) => {
    const [, , , , messageID, , partID] = path.split("/");
    if (state.failing !== "" && path.includes(state.failing)) {
      return { status: 500, body: { name: "UnknownError", data: { message: "no disk" } } };
    }
    if (method === "PATCH" && partID !== undefined) {
      const parts = messages.find((message) => message.info.id === messageID)?.parts ?? [];
      parts.splice(parts.findIndex((part) => part.id === partID), 1, body);
      return { body };
    }
    if (path.endsWith("/message")) {
      return { body: messages };
    }
    if (path.endsWith("/prompt_async")) {
      return { status: 204 };
    }
    return { body: method === "GET" ? { id: "ses_1", ...session } : true };
  });
  const calls = (end: string) => received.filter(({ path }) => path.endsWith(end));
  return { client: createOpencodeClient({ baseUrl: url }), calls, received, messages, state };
}

// until waits for a condition.
export async function until(condition: () => boolean): Promise<void> {
  const end = Date.now() + 30_000;
  while (!condition()) {
    if (Date.now() > end) {
      throw new Error("waited 30 seconds for a condition");
    }
    await new Promise((done) => setTimeout(done, 5));
  }
}
