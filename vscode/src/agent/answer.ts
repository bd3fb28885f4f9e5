import { listAt, numberAt, stringAt, type Json } from "../json.js";
import { failureText, type Turn, type Usage } from "./steps.js";

export type Status = "done" | "waiting" | "failed" | "cancelled" | "timeout";

export interface Failure {
  readonly class: string;
  readonly message: string;
  readonly hint?: string;
}

// An Answer is the result of llm/ask. It is a type and not an interface, so that it is also Json.
export type Answer = {
  readonly text: string;
  readonly conversation: string;
  readonly status: Status;
  readonly waiting_for?: string;
  readonly model?: string;
  readonly usage?: Usage;
  readonly error?: Failure;
  readonly degraded?: readonly string[];
};

const maxWaiting = 1_000;

// answerOf is an answer with what a turn has so far.
export function answerOf(conversation: string, status: Status, turn: Turn | undefined): Answer {
  const spent = turn !== undefined && turn.usage.input + turn.usage.output > 0;
  return { text: turn?.text ?? "", conversation, status, ...(spent ? { usage: turn.usage } : {}) };
}

export function failedAnswer(conversation: string, turn: Turn | undefined, error: Failure): Answer {
  return { ...answerOf(conversation, "failed", turn), error };
}

export function waitingAnswer(conversation: string, turn: Turn, what: string): Answer {
  return { ...answerOf(conversation, "waiting", turn), waiting_for: what.length > maxWaiting ? what.slice(0, maxWaiting) + "…" : what };
}

const rpcStatus: Readonly<Record<number, number>> = { 3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 12: 501, 13: 500, 14: 503, 16: 401 };
const classes: Readonly<Record<number, string>> = {
  400: "invalid", 401: "unauthenticated", 403: "forbidden", 404: "not_found", 429: "rate_limited", 501: "unimplemented", 503: "capacity", 529: "capacity",
};

// classify gives an error of a step a class by the status that it has, or that its text names.
export function classify(error: Json): Failure {
  const message = failureText(error) || "the agent failed without a reason";
  const evidence = [message, ...["shortError", "fullError", "details"].map((name) => stringAt(error, name)), ...listAt(error, "rpcErrorDetails")].join("\n");
  const code = numberAt(error, "errorCode") ?? 0;
  const spoken = /\b(?:code|status|http(?:\/\d(?:\.\d)?)?|error)[ :=(]{1,3}(4\d\d|5\d\d)\b/i.exec(evidence)?.[1];
  const status = code >= 400 && code < 600 ? code : (rpcStatus[code] ?? Number(spoken ?? 0));
  if (/QUOTA_EXHAUSTED|quota.{0,40}exhausted|exhausted.{0,40}quota/i.test(evidence)) {
    return { class: "exhausted", message };
  }
  return { class: classes[status] ?? "unavailable", message };
}
