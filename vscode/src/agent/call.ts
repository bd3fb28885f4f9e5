import * as http from "node:http";
import * as https from "node:https";

import { isObject, parse, stringAt, type Json } from "../json.js";

// An Endpoint is where a language server listens on 127.0.0.1. One of the ports may be 0.
export interface Endpoint {
  readonly http: number;
  readonly https: number;
  readonly csrf: string;
}

// How a call failed. unsent: there was no connection. unclear: the connection ended before the answer. token: the CSRF token was not
// accepted. answered: the language server answered with an error.
export type FailureKind = "unsent" | "unclear" | "token" | "answered";

export class CallError extends Error {
  constructor(
    readonly kind: FailureKind,
    message: string,
    readonly code = "", // of Connect; empty: none
  ) {
    super(message);
  }

  // isMissing reports whether the language server lacks the method.
  get isMissing(): boolean {
    return this.kind === "answered" && (this.code === "unimplemented" || this.code === "404" || this.code === "415");
  }

  // isUnknownConversation reports whether the language server does not know the conversation.
  get isUnknownConversation(): boolean {
    return this.kind === "answered" && (this.code === "not_found" || /(run state|trajectory|cascade|conversation)[^.]{0,60} not found/i.test(this.message));
  }
}

const service = "/exa.language_server_pb.LanguageServerService/";
const maxAnswer = 64 << 20;
const maxQuoted = 600;

export interface CallOptions {
  readonly limit: number; // milliseconds
  readonly signal?: AbortSignal | undefined;
}

// call makes a Connect call with JSON. Each call has a connection of its own: a language server can be killed at any time, and on a
// kept connection it would be unclear whether the request was sent before that. The certificate of the HTTPS port is self-signed and
// expires, so it is not checked; nothing but this machine is reached.
export async function call(endpoint: Endpoint, method: string, request: Json, options: CallOptions): Promise<Json> {
  const { status, text } = await post(endpoint, service + method, JSON.stringify(request), options);
  const answer = parse(text);
  if (status === 200) {
    if (!isObject(answer)) {
      throw new CallError("answered", `the answer to ${method} is not a JSON object`);
    }
    return answer;
  }
  const code = stringAt(answer, "code");
  const said = (stringAt(answer, "message") || (isObject(answer) || text.includes("<") ? "" : text.trim())).slice(0, maxQuoted);
  if ((status === 401 || status === 403) && (code === "" || /csrf/i.test(said))) {
    throw new CallError("token", "the language server does not accept the CSRF token");
  }
  const message = said.replaceAll(endpoint.csrf || "\0", "[redacted]") || http.STATUS_CODES[status] || `status ${status}`;
  throw new CallError("answered", message, code || String(status));
}

function post(endpoint: Endpoint, path: string, body: string, options: CallOptions): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    let connected = false;
    const fail = (error: Error) => reject(new CallError(connected ? "unclear" : "unsent", error.message));
    const given: https.RequestOptions = {
      host: "127.0.0.1",
      port: endpoint.http || endpoint.https,
      path,
      method: "POST",
      agent: false,
      rejectUnauthorized: false,
      headers: {
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(body),
        "Connect-Protocol-Version": "1",
        "User-Agent": "perigee-vscode",
        ...(endpoint.csrf === "" ? {} : { "X-Codeium-Csrf-Token": endpoint.csrf }),
      },
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    };
    const request = endpoint.http ? http.request(given) : https.request(given);
    const timer = setTimeout(() => request.destroy(new Error(`no answer within ${options.limit} ms`)), options.limit);
    request.on("close", () => clearTimeout(timer));
    request.on("socket", (socket) => socket.once(endpoint.http ? "connect" : "secureConnect", () => (connected = true)));
    request.on("error", fail);
    request.on("response", (response) => {
      const parts: Buffer[] = [];
      let size = 0;
      response.on("data", (part: Buffer) => {
        size += part.length;
        if (size > maxAnswer) {
          request.destroy(new Error(`the answer has more than ${maxAnswer >> 20} MiB`));
        }
        parts.push(part);
      });
      response.on("error", fail);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString("utf8") }));
    });
    request.end(body);
  });
}
