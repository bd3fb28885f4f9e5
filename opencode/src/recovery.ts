import type { Hooks, PluginInput } from "@opencode-ai/plugin";

import type { Log } from "./log.js";
import { providerID } from "./models.js";
import type { Settings } from "./settings.js";

export type Kind = "tool_result_missing" | "thinking_block_order" | "thinking_disabled_violation";

// cancelledResult is the result of a tool call that was interrupted.
export const cancelledResult = "Operation cancelled by user (ESC pressed)";

const mostInARow = 3;

type Client = Pick<PluginInput["client"], "session">;
type Messages = Parameters<NonNullable<Hooks["experimental.chat.messages.transform"]>>[1]["messages"];
type Part = Messages[number]["parts"][number];
type ToolPart = Extract<Part, { type: "tool" }>;

// kindOf classifies the error of a session by its text; undefined: recovery would not help. Advice about thinking mentions tool_use and
// tool_result, so that kinds of thinking come first.
export function kindOf(error: unknown): Kind | undefined {
  const text = textOf(error).toLowerCase();
  if (/prompt is too long|context length|rate limit|quota/.test(text)) {
    return undefined;
  }
  if (text.includes("thinking is disabled") && text.includes("cannot contain")) {
    return "thinking_disabled_violation";
  }
  if (text.includes("thinking") && /first block|must start with|prece+ding|expected [`'"]?(redacted_)?thinking\b[^.]*\bfound\b/.test(text)) {
    return "thinking_block_order";
  }
  if ((text.includes("tool_use") && text.includes("tool_result")) || /function response parts is equal to the number of function call parts/.test(text)) {
    return "tool_result_missing";
  }
  return undefined;
}

// textOf is the message of an error in one of the shapes that OpenCode and providers use.
export function textOf(error: unknown): string {
  if (typeof error === "string") {
    return error;
  }
  if (typeof error !== "object" || error === null) {
    return "";
  }
  const { message, data, error: inner } = error as { message?: unknown; data?: unknown; error?: unknown };
  return textOf(data) || (typeof message === "string" ? message : "") || textOf(inner);
}

// A Recovery repairs sessions whose history a provider refuses, and lets them go on. It acts once on each failed message, and at most
// three times in a row on a session: further failures are left to the user until a turn has ended well.
export class Recovery {
  private readonly recovered = new Set<string>(); // failed messages
  private readonly inARow = new Map<string, number>(); // by session
  private readonly withoutThinking = new Map<string, Set<string>>(); // messages by session

  constructor(
    private readonly client: Client,
    private readonly settings: Pick<Settings, "auto_resume" | "resume_text">,
    private readonly log: Log,
  ) {}

  // failed handles the error of a session, and says whether the session was repaired. It never throws.
  async failed(sessionID: string, error: unknown): Promise<boolean> {
    const kind = kindOf(error);
    if (kind === undefined) {
      return false;
    }
    try {
      return await this.recover(sessionID, kind, error);
    } catch (problem) {
      this.log.warn("session not recovered", { sessionID, kind, problem: textOf(problem) });
      return false;
    }
  }

  // ended notes that a turn of the session has ended well.
  ended(sessionID: string): void {
    this.inARow.delete(sessionID);
  }

  // transform removes thinking from the messages of a history that was refused because of it. What OpenCode has stored stays.
  transform(messages: Messages): void {
    for (const message of messages) {
      if (this.withoutThinking.get(message.info.sessionID)?.has(message.info.id)) {
        message.parts = message.parts.filter((part) => part.type !== "reasoning");
      }
    }
  }

  private async recover(sessionID: string, kind: Kind, error: unknown): Promise<boolean> {
    const path = { id: sessionID };
    let messages = await this.messages(sessionID);
    const failed = messages.findLast((message) => message.info.role === "assistant")?.info;
    if (failed?.role !== "assistant" || failed.providerID !== providerID || this.recovered.has(failed.id)) {
      return false; // of another provider, or seen before
    }
    this.recovered.add(failed.id);
    const before = this.inARow.get(sessionID) ?? 0;
    const { data: session } = await this.client.session.get({ path, throwOnError: true });
    const toast = session.parentID === undefined ? this.log.toast.bind(this.log) : () => {}; // a sub-agent's session is not in view
    if (before >= mostInARow) {
      this.log.warn("session not recovered: too many failures in a row", { sessionID, kind, failures: before + 1 });
      toast(`The provider refuses this session, and ${mostInARow} repairs did not help. Undo the last message, or start a new session.`, "warning");
      return false;
    }
    this.inARow.set(sessionID, before + 1);
    this.log.detail("provider refused the session", { sessionID, kind, error: textOf(error) });

    await this.client.session.abort({ path, throwOnError: true }); // a prompt to a turn that has not ended would be lost
    messages = await this.messages(sessionID);
    const repairs = kind === "tool_result_missing" ? await this.cancelTools(messages) : this.hideThinking(sessionID, messages);
    if (repairs === 0) {
      this.log.warn("session not recovered: there is nothing to repair", { sessionID, kind });
      return false;
    }
    const resume = this.settings.auto_resume && session.parentID === undefined; // a sub-agent has reported its failure already
    this.log.info("session recovered", { sessionID, kind, repairs, resume });
    toast(resume ? "The session was repaired and goes on." : "The session was repaired.", "info");
    if (resume) {
      await this.resume(sessionID, messages);
    }
    return true;
  }

  private async messages(sessionID: string): Promise<Messages> {
    const { data } = await this.client.session.messages({ path: { id: sessionID }, throwOnError: true });
    return data;
  }

  // cancelTools gives each interrupted tool call a result. OpenCode accepts no tool results in a prompt; it derives them from the state of
  // the call, which it lets clients replace.
  private async cancelTools(messages: Messages): Promise<number> {
    const parts = messages.flatMap((message) => message.parts).filter(interrupted);
    for (const part of parts) {
      await this.replace({ ...part, state: cancelled(part.state) });
    }
    return parts.length;
  }

  // replace stores a part. The client of the plugin package has no method for this path yet.
  private async replace(part: ToolPart): Promise<void> {
    const http = (this.client.session as unknown as { _client: { patch(request: object): Promise<unknown> } })._client;
    await http.patch({
      url: "/session/{sessionID}/message/{messageID}/part/{partID}",
      path: { sessionID: part.sessionID, messageID: part.messageID, partID: part.id },
      body: part,
      headers: { "content-type": "application/json" },
      throwOnError: true,
    });
  }

  private hideThinking(sessionID: string, messages: Messages): number {
    const found = messages.filter((message) => message.parts.some((part) => part.type === "reasoning")).map((message) => message.info.id);
    const hidden = this.withoutThinking.get(sessionID) ?? new Set();
    const added = found.filter((id) => !hidden.has(id));
    this.withoutThinking.set(sessionID, new Set([...hidden, ...added]));
    return added.length;
  }

  // resume asks on as the last prompt did: the same agent, model and thinking level.
  private async resume(sessionID: string, messages: Messages): Promise<void> {
    const last = messages.findLast((message) => message.info.role === "user")?.info;
    const body = {
      ...(last?.role === "user" && { agent: last.agent, model: last.model, ...variantOf(last.model) }),
      parts: [{ type: "text" as const, text: this.settings.resume_text }],
    };
    await this.client.session.promptAsync({ path: { id: sessionID }, body, throwOnError: true });
  }
}

function variantOf(model: object): { variant?: string } {
  const { variant } = model as { variant?: unknown }; // the types of the plugin package lack it
  return typeof variant === "string" ? { variant } : {};
}

// interrupted says whether a part is a tool call without a result of its own.
function interrupted(part: Part): part is ToolPart {
  if (part.type !== "tool") {
    return false;
  }
  const { state } = part;
  return state.status === "pending" || state.status === "running" || (state.status === "error" && state.metadata?.["interrupted"] === true && state.error !== cancelledResult);
}

function cancelled(state: ToolPart["state"]): ToolPart["state"] {
  const start = "time" in state ? state.time.start : Date.now();
  const { output, ...metadata } = "metadata" in state ? (state.metadata ?? {}) : {};
  // OpenCode sends the output of an interrupted call, if there is one, instead of the error.
  const kept = typeof output === "string" ? { output: [output.trimEnd(), cancelledResult].filter(Boolean).join("\n") } : {};
  return { status: "error", input: state.input, error: cancelledResult, metadata: { ...metadata, ...kept, interrupted: true }, time: { start, end: Date.now() } };
}
