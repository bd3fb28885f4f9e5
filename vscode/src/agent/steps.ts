import { booleanAt, isObject, listAt, numberAt, objectAt, stringAt, type Json } from "../json.js";

// Names of enums by their numbers: answers have either.
export const runStatuses: Readonly<Record<number, string>> = { 1: "IDLE", 2: "RUNNING", 3: "CANCELING", 4: "BUSY" };

const stepStatuses: Readonly<Record<number, string>> = {
  1: "PENDING", 2: "RUNNING", 3: "DONE", 4: "INVALID", 5: "CLEARED", 6: "CANCELED", 7: "ERROR", 8: "GENERATING", 9: "WAITING", 11: "QUEUED", 12: "INTERRUPTED",
};

const stepTypes: Readonly<Record<number, string>> = {
  14: "USER_INPUT", 15: "PLANNER_RESPONSE", 17: "ERROR_MESSAGE", 21: "RUN_COMMAND", 23: "CHECKPOINT", 82: "NOTIFY_USER", 90: "EPHEMERAL_MESSAGE",
  98: "CONVERSATION_HISTORY", 99: "KNOWLEDGE_ARTIFACTS", 101: "SYSTEM_MESSAGE", 138: "ASK_QUESTION",
};

const stopReasons: Readonly<Record<number, string>> = { 2: "STOP_PATTERN", 3: "MAX_TOKENS", 11: "CONTENT_FILTER", 16: "CLIENT_CANCELED" };

const terminations: Readonly<Record<number, string>> = {
  1: "ERROR", 2: "USER_CANCELED", 3: "MAX_INVOCATIONS", 4: "NO_TOOL_CALL", 6: "MAX_FORCED_INVOCATIONS", 7: "EARLY_CONTINUE", 8: "TERMINAL_STEP_TYPE",
  9: "TERMINAL_CUSTOM_HOOK", 10: "INJECTED_RESPONSE",
};

const prefixes = /^(CASCADE_RUN_STATUS|CORTEX_STEP_STATUS|CORTEX_STEP_TYPE|STOP_REASON|EXECUTOR_TERMINATION_REASON)_/;
const ended = ["DONE", "INVALID", "CLEARED", "CANCELED", "ERROR", "INTERRUPTED", "HALTED"];
const internal = ["", "UNSPECIFIED", "CHECKPOINT", "EPHEMERAL_MESSAGE", "CONVERSATION_HISTORY", "KNOWLEDGE_ARTIFACTS", "SYSTEM_MESSAGE"];

// enumName is the name of a value without the prefix of its enum; "": unknown.
export function enumName(value: unknown, names: Readonly<Record<number, string>>): string {
  if (typeof value === "string" && !/^\d+$/.test(value)) {
    return value.replace(prefixes, "");
  }
  return names[Number(value)] ?? "";
}

function typeOf(step: Json): string {
  const type = enumName(step["type"], stepTypes);
  if (type !== "" && type !== "UNSPECIFIED") {
    return type;
  }
  const members = { userInput: "USER_INPUT", plannerResponse: "PLANNER_RESPONSE", errorMessage: "ERROR_MESSAGE", runCommand: "RUN_COMMAND", notifyUser: "NOTIFY_USER", askQuestion: "ASK_QUESTION" };
  return Object.entries(members).find(([member]) => isObject(step[member]))?.[1] ?? type;
}

// inputText is what the user said in a step; undefined: it is another step.
export function inputText(step: unknown): string | undefined {
  if (!isObject(step) || typeOf(step) !== "USER_INPUT") {
    return undefined;
  }
  const input = objectAt(step, "userInput");
  const items = listAt(input, "items").map((item) => stringAt(item, "text")).filter(Boolean).join("\n");
  return items || stringAt(input, "userResponse") || stringAt(input, "query");
}

// isPrompt reports whether a step is a prompt. White space around it does not count, because the panel removes it.
export function isPrompt(step: unknown, prompt: string): boolean {
  const plain = (text: string) => text.replaceAll("\r\n", "\n").trim();
  const text = inputText(step);
  return text !== undefined && plain(text) === plain(prompt);
}

export interface Usage {
  input: number; // with what came from the cache
  cached: number;
  output: number; // with thinking
  thinking: number;
}

// A Turn is what the steps after a message of the user say.
export interface Turn {
  text: string;
  steps: number;
  waiting: string[]; // what the steps wait for
  pending: boolean; // a step has not ended, or a message is in the queue
  answers: number; // steps of the planner, messages to the user and errors
  complete: boolean; // the last step that counts is a text without calls, and its generation has ended normally
  failure: Json | undefined; // the error of the last step that counts
  cancelled: boolean; // the last step that counts was
  planner: number; // the index of the last text within the turn; -1: none
  execution: string;
  usage: Usage;
}

// readTurn reads the steps of a turn. The first is the message of the user.
export function readTurn(steps: readonly unknown[]): Turn {
  const turn: Turn = {
    text: "", steps: steps.length, waiting: [], pending: false, answers: 0, complete: false, failure: undefined, cancelled: false, planner: -1,
    execution: "", usage: { input: 0, cached: 0, output: 0, thinking: 0 },
  };
  const texts: string[] = [];
  for (const [at, step] of steps.entries()) {
    if (isObject(step)) {
      addStep(turn, texts, step, at);
    }
  }
  turn.text = texts.filter(Boolean).join("\n\n");
  return turn;
}

function addStep(turn: Turn, texts: string[], step: Json, at: number): void {
  const type = typeOf(step);
  const status = enumName(step["status"], stepStatuses);
  const isInternal = internal.includes(type);
  turn.waiting.push(...waitingIn(step, 0));
  turn.pending ||= !isInternal && !ended.includes(status);
  addUsage(turn.usage, objectAt(step, "metadata", "modelUsage"));
  turn.execution = stringAt(objectAt(step, "metadata"), "executionId") || turn.execution;
  if (type === "USER_INPUT" || isInternal) {
    return;
  }
  const planner = objectAt(step, "plannerResponse");
  const stop = enumName(planner["stopReason"], stopReasons);
  turn.complete = false;
  if (type === "PLANNER_RESPONSE" || type === "NOTIFY_USER") {
    texts.push(stringAt(objectAt(step, "notifyUser"), "notificationContent") || stringAt(planner, "response") || stringAt(planner, "modifiedResponse"));
    turn.answers++;
    turn.planner = at;
    const normal = type === "NOTIFY_USER" || ["STOP_PATTERN", "MAX_TOKENS", "CONTENT_FILTER"].includes(stop);
    turn.complete = status === "DONE" && listAt(planner, "toolCalls").length === 0 && normal;
  }
  turn.failure = failureOf(step, type);
  turn.answers += turn.failure === undefined ? 0 : 1;
  turn.cancelled = status === "CANCELED" || status === "INTERRUPTED" || stop === "CLIENT_CANCELED";
}

function addUsage(sum: Usage, usage: Json): void {
  const cached = numberAt(usage, "cacheReadTokens") ?? 0;
  sum.input += (numberAt(usage, "inputTokens") ?? 0) + cached + (numberAt(usage, "cacheWriteTokens") ?? 0);
  sum.cached += cached;
  sum.output += numberAt(usage, "outputTokens") ?? 0;
  sum.thinking += numberAt(usage, "thinkingOutputTokens") ?? 0;
}

// failureOf is the error of a step that concerns the turn. Errors of tools are results, which the model reads.
function failureOf(step: Json, type: string): Json | undefined {
  const message = objectAt(step, "errorMessage", "error");
  const error = Object.keys(message).length > 0 ? message : type === "PLANNER_RESPONSE" ? objectAt(step, "error") : {};
  return booleanAt(error, "isBenign") || (failureText(error) === "" && (numberAt(error, "errorCode") ?? 0) === 0) ? undefined : error;
}

export function failureText(error: Json): string {
  const names = ["userErrorMessage", "shortError", "fullError", "modelErrorMessage", "details"];
  return names.map((name) => stringAt(error, name)).find(Boolean) ?? listAt(error, "rpcErrorDetails").filter((each) => typeof each === "string").join("\n");
}

const maxNesting = 8;

// waitingIn lists what a step, and the steps of its subagents, wait for. A step of the planner that waits stands for the steps after it.
function waitingIn(step: Json, depth: number): string[] {
  const own = enumName(step["status"], stepStatuses) === "WAITING" && !isObject(step["plannerResponse"]) ? [subjectOf(step)] : [];
  const inner = depth < maxNesting ? listAt(step["subtrajectory"], "steps") : [];
  return [...own, ...inner.flatMap((each) => (isObject(each) ? waitingIn(each, depth + 1) : []))];
}

// subjectOf is what a person decides about.
function subjectOf(step: Json): string {
  const requested = objectAt(step, "requestedInteraction");
  const permissions = [requested["filePermission"], ...["codeAction", "viewFile", "listDirectory", "grepSearch"].map((name) => objectAt(step, name)["filePermissionRequest"])];
  const permission = permissions.find(isObject);
  if (permission !== undefined) {
    return `permission for ${stringAt(permission, "absolutePathUri") || "a file"}`;
  }
  const command = objectAt(step, "runCommand");
  const line = stringAt(command, "proposedCommandLine") || stringAt(command, "commandLine") || stringAt(command, "command");
  if (isObject(step["runCommand"])) {
    return `permission to run ${line || "a command"}`;
  }
  if (isObject(step["mcpTool"])) {
    const tool = objectAt(step, "mcpTool");
    return `permission to call ${[stringAt(tool, "serverName"), stringAt(objectAt(tool, "toolCall"), "name")].filter(Boolean).join("/")}`;
  }
  if (isObject(step["askQuestion"])) {
    return listAt(step["askQuestion"], "questions").map(questionText).join("\n") || "an answer to a question";
  }
  const elicitation = objectAt(requested, "elicitation");
  const subject = stringAt(elicitation, "message") || stringAt(objectAt(step, "readUrlContent"), "url") || stringAt(objectAt(step, "sendCommandInput"), "input") ||
    stringAt(objectAt(step, "notifyUser"), "notificationContent") || stringAt(objectAt(step, "metadata", "toolCall"), "name");
  return subject === "" ? "a decision in the IDE" : `a decision about ${subject}`;
}

function questionText(entry: unknown): string {
  const options = listAt(entry, "options").map((option) => stringAt(option, "text")).filter(Boolean);
  return stringAt(entry, "question") + (options.length > 0 ? ` (${options.join(", ")})` : "");
}

// termination is why the executor has stopped, if that is about this turn: the server keeps the reasons of earlier turns. first is the
// index of the first step of the turn.
export function termination(executor: Json, turn: Turn, first: number): string {
  const reason = enumName(executor["terminationReason"], terminations);
  const id = stringAt(executor, "executionId");
  const own = id !== "" && turn.execution !== "" ? id === turn.execution : (numberAt(executor, "lastStepIdx") ?? 0) >= first + Math.max(turn.planner, 1);
  return reason === "UNSPECIFIED" || !own ? "" : reason;
}
