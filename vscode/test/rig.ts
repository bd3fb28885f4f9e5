import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import type { TestContext } from "node:test";

import WebSocket from "ws";

import { isObject, type Json } from "../src/json.js";

export const patience = 60_000;

const endings = new WeakMap<TestContext, (() => unknown)[]>();

// atEnd has something undone after the test, the last first, and all of it even if a part fails. (Hooks of t.after run in the order
// of their registration, so a directory would be removed while a program writes into it.)
export function atEnd(t: TestContext, undo: () => unknown): void {
  const list = endings.get(t) ?? [];
  list.push(undo);
  if (list.length > 1) {
    return;
  }
  endings.set(t, list);
  t.after(async () => {
    const failures: unknown[] = [];
    for (const each of list.reverse()) {
      await Promise.resolve().then(each).catch((error: unknown) => failures.push(error));
    }
    assert.deepEqual(failures, []);
  });
}

// temporaryDir returns a directory that is removed after the test, with links resolved.
export function temporaryDir(t: TestContext): string {
  const dir = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "perigee-vscode-")));
  atEnd(t, () => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

// eventually waits until a condition holds.
export async function eventually(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + patience;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `not seen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// A Client is a client of the bridge.
export class Client {
  readonly notifications: Json[] = [];
  readonly stray: Json[] = []; // answers without the id of a request
  closed: { code: number; reason: string } | undefined;
  private next = 1;
  private readonly waiting = new Map<number, { resolve: (message: Json) => void; reject: (error: Error) => void }>();

  private constructor(readonly socket: WebSocket) {
    socket.on("message", (data: Buffer) => {
      const message: unknown = JSON.parse(data.toString("utf8"));
      assert.ok(isObject(message));
      const id = message["id"];
      const request = typeof id === "number" ? this.waiting.get(id) : undefined;
      if (request !== undefined) {
        this.waiting.delete(id as number);
        request.resolve(message);
      } else if ("method" in message) {
        this.notifications.push(message);
      } else {
        this.stray.push(message);
      }
    });
    socket.on("close", (code, reason) => {
      this.closed = { code, reason: reason.toString("utf8") };
      this.waiting.forEach((request) => request.reject(new Error("closed")));
    });
    socket.on("error", () => undefined);
  }

  // connect opens a connection, or rejects with the HTTP status.
  static connect(t: TestContext, port: number, headers: Record<string, string>, where = "/"): Promise<Client> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${where}`, { headers });
    atEnd(t, () => socket.terminate());
    return new Promise((resolve, reject) => {
      const client = new Client(socket);
      socket.on("open", () => resolve(client));
      socket.on("unexpected-response", (_request, response) => reject(new Error(`status ${response.statusCode}`)));
      socket.on("error", reject);
    });
  }

  // request returns the whole answer.
  request(method: string, params?: unknown): Promise<Json> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  // call returns the result, and fails if there is an error instead.
  async call(method: string, params?: unknown): Promise<Json> {
    const answer = await this.request(method, params);
    assert.ok(isObject(answer["result"]), JSON.stringify(answer["error"]));
    return answer["result"];
  }

  // refused returns the error, and fails if there is a result instead.
  async refused(method: string, params?: unknown): Promise<{ code: number; message: string; data?: Json }> {
    const answer = await this.request(method, params);
    assert.ok(isObject(answer["error"]), `${method} was not refused: ${JSON.stringify(answer)}`);
    return answer["error"] as { code: number; message: string; data?: Json };
  }
}
