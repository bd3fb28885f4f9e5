import { badParams, codes, RpcError } from "../bridge/errors.js";
import { messageOf, objectAt, stringAt } from "../json.js";
import { answerOf, failedAnswer, type Answer } from "./answer.js";
import { CallError } from "./call.js";
import { findPrompt, knownConversations } from "./find.js";
import { endOf, follow } from "./follow.js";
import type { LanguageServer, Reading } from "./languageserver.js";
import { chooseModel, nameOf, type Model } from "./models.js";
import type { Panel } from "./panel.js";
import { inputText } from "./steps.js";

export interface AskRequest {
  readonly prompt: string; // empty with a conversation: wait for the answer that is being written
  readonly model?: string | undefined;
  readonly conversation?: string | undefined;
  readonly readOnly: boolean;
  readonly deadline: number | undefined;
  readonly left: AbortSignal;
  readonly cancelled: AbortSignal;
  readonly progress: (conversation: string, text: string, steps: number) => void;
}

const learnTime = 10_000;
const learnPause = 250;
const stopTime = 3_000;

// A Handover is a prompt that the agent has, or may have.
interface Handover {
  readonly conversation: string;
  readonly from: number; // the first step that may be the prompt
  readonly unclear?: string; // why it is not known what became of the prompt
  readonly model?: string;
  readonly degraded?: readonly string[];
}

// ask has the agent answer a prompt. An error says that the prompt was not handed over.
export async function ask(server: LanguageServer, panel: Panel, request: AskRequest): Promise<Answer> {
  const handover = await handOver(server, panel, request);
  const { conversation, from, model, degraded } = handover;
  const extra = { ...(model === undefined ? {} : { model }), ...(degraded === undefined || degraded.length === 0 ? {} : { degraded }) };
  if (handover.unclear !== undefined && request.cancelled.aborted) {
    await stop(server, conversation);
    return { ...answerOf(conversation, "cancelled", undefined), ...extra };
  }
  if (handover.unclear !== undefined && (request.deadline ?? Infinity) <= Date.now()) {
    return { ...answerOf(conversation, "timeout", undefined), ...extra };
  }
  if (handover.unclear !== undefined) {
    const hint = "look at the conversations in the IDE before you ask again: the prompt was not sent a second time";
    return { ...failedAnswer(conversation, undefined, { class: "unavailable", message: handover.unclear, hint }), ...extra };
  }
  request.progress(conversation, "", 0);
  const { prompt, deadline, left, cancelled } = request;
  const progress = (text: string, steps: number) => request.progress(conversation, text, steps);
  const answer = await follow(server, { conversation, prompt, from, deadline, left, cancelled, progress });
  return { ...answer, ...extra };
}

// stop stops an agent that may have got a prompt, if the language server does that soon.
async function stop(server: LanguageServer, conversation: string): Promise<void> {
  const limit = new Promise((resolve) => setTimeout(resolve, stopTime).unref());
  await Promise.race([server.cancel(conversation).catch(() => undefined), limit]);
}

// handOver prefers calls of the language server, which return the id of the conversation. The panel is used if they fail before
// anything was sent, and if the ask wants nothing that the panel cannot promise.
async function handOver(server: LanguageServer, panel: Panel, request: AskRequest): Promise<Handover> {
  try {
    return await byCalls(server, request);
  } catch (error) {
    if (!(error instanceof CallError)) {
      throw error;
    }
    const reason = `the language server did not take the prompt: ${messageOf(error)}`;
    const plain = !request.readOnly && request.model === undefined && request.conversation === undefined;
    if (!plain || error.kind !== "answered" || !(await panel.canSubmit())) {
      throw new RpcError(codes.noAgent, reason, { class: "unavailable" });
    }
    return byPanel(server, panel, request, reason);
  }
}

async function byCalls(server: LanguageServer, request: AskRequest): Promise<Handover> {
  const before = request.conversation === undefined ? undefined : await existing(server, request.conversation);
  if (before !== undefined && request.conversation !== undefined && request.prompt === "") {
    return { conversation: request.conversation, from: 0 };
  }
  if (before !== undefined && !["", "IDLE"].includes(before.status)) {
    throw new RpcError(codes.busy, "the agent still works in this conversation: ask with an empty prompt to wait for its answer", { class: "unavailable" });
  }
  const model = pick(await learnedModels(server, request), request.model, before);
  alive(request);
  const conversation = request.conversation ?? (await server.start());
  alive(request);
  const known = before?.steps.length ?? 0;
  request.progress(conversation, "", 0);
  const sent = await server.send(conversation, request.prompt, model, { readOnly: request.readOnly, known, signal: endOf(request) });
  const unclear = "it is not known whether the agent got the prompt: the connection to the language server ended";
  return { conversation, from: known, model: nameOf(model), ...(sent ? {} : { unclear }) };
}

// learnedModels waits for a language server that was just started: it learns its models from the cloud.
async function learnedModels(server: LanguageServer, request: AskRequest): Promise<Model[]> {
  for (const end = Date.now() + learnTime; ; ) {
    const models = await server.models();
    alive(request);
    if (models.length > 0 || Date.now() >= end) {
      return models;
    }
    await new Promise((resolve) => setTimeout(resolve, learnPause));
  }
}

function alive(request: AskRequest): void {
  if (request.cancelled.aborted || request.left.aborted) {
    throw new RpcError(codes.cancelled, "the ask was cancelled before the prompt was handed over");
  }
  if (request.deadline !== undefined && Date.now() >= request.deadline) {
    throw new RpcError(codes.busy, "the ask ran out of time before the prompt was handed over", { class: "unavailable" });
  }
}

async function existing(server: LanguageServer, conversation: string): Promise<Reading> {
  for (let loaded = false; ; loaded = true) {
    try {
      return await server.read(conversation, 0);
    } catch (error) {
      if (!(error instanceof CallError) || !error.isUnknownConversation) {
        throw error;
      }
      if (loaded) {
        throw badParams(`there is no conversation ${conversation.slice(0, 100)}`, "not_found");
      }
      await server.load(conversation).catch(() => undefined);
    }
  }
}

// pick chooses the model: the one that was asked for, the one of the conversation, or the default.
function pick(models: readonly Model[], name: string | undefined, before: Reading | undefined): Model {
  const last = before?.steps.findLast((step) => inputText(step) !== undefined);
  const used = objectAt(last, "userInput", "userConfig", "plannerConfig");
  const inherited = stringAt(objectAt(used, "requestedModel"), "model") || stringAt(used, "planModel") || undefined;
  const model = chooseModel(models, name);
  if (name !== undefined && name !== "") {
    if (model === undefined) {
      const labels = models.map(nameOf).slice(0, 30);
      throw badParams(`there is no model ${name.slice(0, 100)}; the agent has ${[...new Set(labels)].join(", ") || "none"}`, "not_found");
    }
    return model;
  }
  const chosen = (inherited === undefined ? undefined : chooseModel(models, inherited)) ?? model;
  if (chosen === undefined) {
    throw new CallError("answered", "it knows no models yet: sign in, or wait some seconds");
  }
  return chosen;
}

// byPanel submits a prompt with the commands of the IDE, and finds the conversation by its text.
async function byPanel(server: LanguageServer, panel: Panel, request: AskRequest, reason: string): Promise<Handover> {
  const release = panel.hold();
  try {
    const before = await knownConversations(server, panel);
    alive(request);
    const degraded = [reason, ...(await panel.submit(request.prompt, undefined))];
    const found = await findPrompt(server, panel, { ...request, before });
    if (typeof found === "string") {
      return { conversation: "", from: 0, unclear: `the prompt was given to the agent panel, but its answer cannot be followed: ${found}`, degraded };
    }
    return { conversation: found.conversation, from: found.step, degraded };
  } finally {
    release();
  }
}
