import type { Json } from "../json.js";

// The codes of JSON-RPC, and those of the bridge. Up to noAgent, busy, outside and badParams, an error of an ask says that the prompt
// was not handed over.
export const codes = {
  parse: -32700,
  invalidRequest: -32600,
  unknownMethod: -32601,
  badParams: -32602,
  internal: -32603,
  version: -32001,
  noAgent: -32002,
  busy: -32003,
  cancelled: -32004,
  outside: -32005,
} as const;

export type ErrorClass = "invalid" | "not_found" | "forbidden" | "unimplemented" | "unavailable" | "capacity";

// An RpcError is an error whose message a client may read.
export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: Json,
  ) {
    super(message);
  }
}

export function badParams(message: string, errorClass: ErrorClass = "invalid", more: Json = {}): RpcError {
  return new RpcError(codes.badParams, message, { class: errorClass, ...more });
}
