import { setMaxListeners } from "node:events";

import { isObject, messageOf, parse, type Json } from "../json.js";
import { codes, RpcError } from "./errors.js";
import { Params } from "./params.js";

// A Channel carries the messages of one client.
export interface Channel {
  send(text: string): void;
  // backlog is the number of bytes that were not yet sent.
  backlog(): number;
}

// A Caller is the client of a request.
export interface Caller {
  // signal ends with the connection.
  readonly signal: AbortSignal;
  notify(method: string, params: Json): void;
}

export type Method = (params: Params, caller: Caller) => Json | Promise<Json>;

export interface SessionLimits {
  readonly requests: number; // at once
  readonly message: number; // bytes
}

type Id = string | number;

const maxBacklog = 4 << 20;

// A Session is the conversation with one client: JSON-RPC 2.0, one message at a time, hello first. Requests are worked on
// concurrently and answered in any order.
export class Session {
  private greeted = false;
  private running = 0;
  private readonly end = new AbortController();

  constructor(
    private readonly channel: Channel,
    private readonly methods: ReadonlyMap<string, Method>,
    private readonly limits: SessionLimits,
    private readonly report: (problem: string) => void,
  ) {
    setMaxListeners(0, this.end.signal); // each request may have one
  }

  // hasGreeted reports whether hello was answered with a result.
  get hasGreeted(): boolean {
    return this.greeted;
  }

  // close ends what runs for the client. Nothing is sent afterwards.
  close(): void {
    this.end.abort();
  }

  // receive answers a message. It never throws.
  async receive(text: string): Promise<void> {
    const message = parse(text);
    if (message === undefined) {
      return this.fail(null, new RpcError(codes.parse, "the message is not JSON"));
    }
    if (Array.isArray(message)) {
      return this.fail(null, new RpcError(codes.invalidRequest, "batches are not accepted: send one message at a time"));
    }
    if (!isObject(message) || message["jsonrpc"] !== "2.0" || typeof message["method"] !== "string") {
      return this.fail(idOf(message), new RpcError(codes.invalidRequest, "the message is not a JSON-RPC 2.0 request"));
    }
    if (!Object.hasOwn(message, "id")) {
      return; // The protocol has no notifications from clients.
    }
    const id = idOf(message);
    if (id === null) {
      return this.fail(null, new RpcError(codes.invalidRequest, "id is neither a string nor a number"));
    }
    if (this.running >= this.limits.requests) {
      return this.fail(id, new RpcError(codes.busy, `more than ${this.limits.requests} requests at once`));
    }
    this.running++;
    try {
      const result = await this.call(message["method"], message["params"]);
      this.answer(id, result);
    } catch (error) {
      this.fail(id, error);
    } finally {
      this.running--;
    }
  }

  private async call(name: string, params: unknown): Promise<Json> {
    if (!this.greeted && name !== "hello") {
      throw new RpcError(codes.invalidRequest, "the first request must be hello");
    }
    if (this.greeted && name === "hello") {
      throw new RpcError(codes.invalidRequest, "hello was answered already");
    }
    const method = this.methods.get(name);
    if (method === undefined) {
      throw new RpcError(codes.unknownMethod, `there is no method ${JSON.stringify(name.slice(0, 80))}`);
    }
    const result = await method(new Params(params), {
      signal: this.end.signal,
      notify: (notification, content) => this.notify(notification, content),
    });
    this.greeted = true;
    return result;
  }

  // notify drops a notification that a slow client would have to catch up with: the next one has the whole state again.
  private notify(method: string, params: Json): void {
    const text = JSON.stringify({ jsonrpc: "2.0", method, params });
    if (Buffer.byteLength(text) <= this.limits.message && this.channel.backlog() < maxBacklog) {
      this.send(text);
    }
  }

  private answer(id: Id, result: Json): void {
    const text = JSON.stringify({ jsonrpc: "2.0", id, result });
    if (Buffer.byteLength(text) > this.limits.message) {
      return this.fail(id, new RpcError(codes.internal, `the result has more than ${this.limits.message >> 20} MiB`));
    }
    this.send(text);
  }

  private fail(id: Id | null, error: unknown): void {
    let known: RpcError;
    if (error instanceof RpcError) {
      known = error;
    } else {
      this.report(`a request failed: ${error instanceof Error ? (error.stack ?? error.message) : messageOf(error)}`);
      known = new RpcError(codes.internal, "the extension failed; its log has the details");
    }
    const { code, message, data } = known;
    this.send(JSON.stringify({ jsonrpc: "2.0", id, error: data === undefined ? { code, message } : { code, message, data } }));
  }

  private send(text: string): void {
    if (!this.end.signal.aborted) {
      this.channel.send(text);
    }
  }
}

function idOf(message: unknown): Id | null {
  const id = isObject(message) ? message["id"] : undefined;
  return typeof id === "string" || (typeof id === "number" && Number.isFinite(id)) ? id : null;
}
