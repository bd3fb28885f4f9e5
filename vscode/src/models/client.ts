import { events } from "./sse.js";

// A PerigeeError is an error of perigee, with its message, which ends in a hint, and its class.
export class PerigeeError extends Error {
  constructor(
    message: string,
    readonly errorClass: string,
    readonly status = 0,
  ) {
    super(message);
    this.name = "PerigeeError";
  }
}

// A Model is a row of GET /v1beta/models, as far as it is used here.
export interface Model {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly owner: string;
  readonly version: string;
  readonly input: number;
  readonly output: number;
}

// Blocks, messages and tools of the Messages API.
export type Block =
  | { type: "text"; text: string }
  | { type: "image"; source: { type: "base64"; media_type: string; data: string } }
  | { type: "tool_use"; id: string; name: string; input: object }
  | { type: "tool_result"; tool_use_id: string; content: Block[] };

export interface Message {
  role: "user" | "assistant";
  content: Block[];
}

export interface Tool {
  name: string;
  description: string;
  input_schema: object;
}

export interface MessagesRequest {
  model: string;
  max_tokens: number;
  system?: string;
  messages: Message[];
  tools?: Tool[];
  tool_choice?: { type: "auto" | "any" };
  [parameter: string]: unknown;
}

// An Answer is one piece of a streamed answer.
export type Answer =
  | { type: "text"; text: string }
  | { type: "call"; id: string; name: string; input: object }
  | { type: "end"; reason: string; input: number; output: number };

// CallInfo is what the headers of an answer tell about the call.
export interface CallInfo {
  readonly call: string;
  readonly model: string;
  readonly upstream: string;
  readonly notes: string;
}

export interface ClientOptions {
  readonly url: string;
  readonly key?: string | undefined;
  readonly userAgent: string;
}

const maxErrorText = 2000;

// A Client calls the HTTP API of one perigee. Messages is its dialect: it carries images in tool results, parallel calls and token
// counts of the same messages. Thought signatures do not travel; perigee keeps them.
export class Client {
  readonly url: string;

  constructor(private readonly options: ClientOptions) {
    this.url = baseURL(options.url);
  }

  // models lists what can answer a chat.
  async models(signal: AbortSignal): Promise<Model[]> {
    const response = await this.send("GET", "/v1beta/models?pageSize=1000", undefined, signal);
    const list = (await this.json(response)) as { models?: unknown };
    if (!Array.isArray(list.models)) {
      throw this.foreign(response.status);
    }
    const found: Model[] = [];
    for (const row of list.models as Record<string, unknown>[]) {
      const id = text(row["name"]).replace(/^models\//, "");
      const methods = row["supportedGenerationMethods"];
      if (id === "" || (Array.isArray(methods) && !methods.includes("generateContent"))) {
        continue;
      }
      found.push({
        id,
        name: text(row["displayName"]) || id,
        description: text(row["description"]),
        owner: text(row["owned_by"]),
        version: text(row["version"]),
        input: count(row["inputTokenLimit"]),
        output: count(row["outputTokenLimit"]),
      });
    }
    return found;
  }

  async countTokens(model: string, messages: Message[], signal: AbortSignal): Promise<number> {
    const response = await this.send("POST", "/v1/messages/count_tokens", { model, messages }, signal);
    const answer = (await this.json(response)) as { input_tokens?: unknown };
    if (typeof answer.input_tokens !== "number") {
      throw this.foreign(response.status);
    }
    return answer.input_tokens;
  }

  // stream asks, and yields the answer as it comes. It throws a PerigeeError if the answer fails, also in the middle, and if it ends
  // without its end. An answer whose consumer stops early, or whose signal is aborted, is canceled at perigee too.
  async *stream(request: MessagesRequest, signal: AbortSignal, info: (i: CallInfo) => void): AsyncGenerator<Answer> {
    const response = await this.send("POST", "/v1/messages", { ...request, stream: true }, signal);
    const header = (name: string) => response.headers.get(`x-perigee-${name}`) ?? "";
    info({ call: header("call"), model: header("model"), upstream: header("upstream"), notes: header("notes") });
    if (!response.body || !/^text\/event-stream\b/.test(response.headers.get("content-type") ?? "")) {
      await response.body?.cancel();
      throw this.foreign(response.status);
    }
    const open = new Map<number, { id: string; name: string; json: string; input: unknown }>();
    let reason = "";
    let usage = { input: 0, output: 0 };
    try {
      for await (const { data } of events(response.body)) {
        const event = parse(data);
        const index = count(event["index"]);
        const block = object(event["content_block"]);
        const delta = object(event["delta"]);
        switch (event["type"]) {
          case "content_block_start":
            if (block["type"] === "tool_use") {
              open.set(index, { id: text(block["id"]), name: text(block["name"]), json: "", input: block["input"] });
            } else if (block["type"] === "text" && text(block["text"]) !== "") {
              yield { type: "text", text: text(block["text"]) };
            }
            break;
          case "content_block_delta":
            if (delta["type"] === "text_delta" && text(delta["text"]) !== "") {
              yield { type: "text", text: text(delta["text"]) };
            } else if (delta["type"] === "input_json_delta") {
              const call = open.get(index);
              if (call) {
                call.json += text(delta["partial_json"]);
              }
            }
            break;
          case "content_block_stop": {
            const call = open.get(index);
            if (call) {
              open.delete(index);
              yield { type: "call", id: call.id, name: call.name, input: call.json === "" ? object(call.input) : parse(call.json) };
            }
            break;
          }
          case "message_delta":
            reason = text(delta["stop_reason"]) || reason;
            usage = { input: count(object(event["usage"])["input_tokens"]), output: count(object(event["usage"])["output_tokens"]) };
            break;
          case "message_stop":
            yield { type: "end", reason, ...usage };
            return;
          case "error":
            throw errorOf(event, 200, "");
        }
      }
    } catch (error) {
      throw this.explain(error, signal);
    }
    throw new PerigeeError("the answer broke off; ask again, and look at perigee's log if it happens often", "unavailable");
  }

  private async send(method: string, path: string, body: unknown, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { accept: "application/json", "user-agent": this.options.userAgent };
    if (this.options.key) {
      headers["authorization"] = `Bearer ${this.options.key}`;
    }
    const init: RequestInit = { method, headers, signal, redirect: "manual" }; // a key must not follow a redirect
    if (body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(body);
    }
    let response: Response;
    try {
      response = await fetch(this.url + path, init);
    } catch (error) {
      throw this.explain(error, signal);
    }
    if (response.ok) {
      return response;
    }
    let said: string;
    try {
      said = await response.text();
    } catch (error) {
      throw this.explain(error, signal);
    }
    if (response.headers.has("x-perigee-class")) {
      throw errorOf(tryParse(said), response.status, response.headers.get("x-perigee-class") ?? "");
    }
    throw this.foreign(response.status);
  }

  private async json(response: Response): Promise<unknown> {
    try {
      return await response.json();
    } catch {
      throw this.foreign(response.status);
    }
  }

  // foreign is the error for answers that perigee does not give.
  private foreign(status: number): PerigeeError {
    return new PerigeeError(
      `${this.url} answers (status ${status}), but not as perigee does; check the setting perigee.url`,
      "unavailable",
      status,
    );
  }

  // explain turns an error of the connection into one with a next step.
  private explain(error: unknown, signal: AbortSignal): Error {
    if (error instanceof PerigeeError) {
      return error;
    }
    if (signal.aborted) {
      const reason: unknown = signal.reason;
      if (reason instanceof DOMException && reason.name === "TimeoutError") {
        return new PerigeeError(`perigee at ${this.url} did not answer in time; look at its log`, "unavailable");
      }
      return reason instanceof Error ? reason : new Error("canceled");
    }
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const code = (cause as { code?: unknown }).code;
    const detail = cause instanceof Error ? cause.message || text(code) : String(cause);
    if (code === "ECONNREFUSED") {
      return new PerigeeError(`perigee is not running at ${this.url}; start it with "perigee serve", or change the setting perigee.url`, "unavailable");
    }
    return new PerigeeError(`perigee at ${this.url} cannot be reached (${detail}); check that it runs, and the setting perigee.url`, "unavailable");
  }
}

// baseURL accepts what users paste: with or without a slash or a version at the end.
export function baseURL(setting: string): string {
  let url: URL;
  try {
    url = new URL(setting.trim());
  } catch {
    throw new PerigeeError(`the setting perigee.url is no URL: ${JSON.stringify(setting)}; the default is http://127.0.0.1:8741`, "invalid");
  }
  if (!["http:", "https:"].includes(url.protocol) || url.username !== "" || url.password !== "") {
    throw new PerigeeError("the setting perigee.url must be an http or https URL without user and password", "invalid");
  }
  return url.origin + url.pathname.replace(/\/+$/, "").replace(/\/v1(beta)?$/, "");
}

function errorOf(body: Record<string, unknown>, status: number, errorClass: string): PerigeeError {
  const error = object(body["error"]);
  const message = text(error["message"]).slice(0, maxErrorText) || `perigee answered with status ${status}`;
  return new PerigeeError(message, text(object(error["details"])["class"]) || errorClass || "unavailable", status);
}

function parse(json: string): Record<string, unknown> {
  try {
    return object(JSON.parse(json));
  } catch {
    throw new PerigeeError("an event of the answer is not JSON; look at perigee's log", "unavailable");
  }
}

function tryParse(json: string): Record<string, unknown> {
  try {
    return object(JSON.parse(json));
  } catch {
    return {};
  }
}

function object(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
}
