import { badParams, codes, RpcError } from "../bridge/errors.js";
import type { Params } from "../bridge/params.js";
import type { Caller, Method } from "../bridge/session.js";
import { messageOf, type Json } from "../json.js";
import { ask } from "./ask.js";
import type { Endpoint } from "./call.js";
import { LanguageServer } from "./languageserver.js";
import type { Locator } from "./locate.js";
import { Panel, type Commands } from "./panel.js";

const maxAsks = 32;
const maxSeconds = 3_600;
const verifyTime = 300;

export interface AgentOptions {
  readonly commands: Commands;
  readonly locator: Locator;
  // isAgentEditor says that the editor is one with an agent, whatever its commands are.
  readonly isAgentEditor: () => boolean;
  // inside fails if a directory is not in the workspace.
  readonly inside: (dir: string) => Promise<unknown>;
  readonly report: (problem: string) => void;
  readonly ideVersion?: string;
  readonly panel?: Panel;
}

// What a window can do with its agent.
export interface AgentState {
  readonly present: boolean;
  readonly submit: boolean; // a prompt can be handed over by commands
  readonly busy: boolean;
  readonly server: Endpoint | undefined;
}

// An Agent is the agent of the IDE in this window. Between asks it does nothing.
export class Agent {
  private readonly server: LanguageServer;
  private readonly panel: Panel;
  private readonly asks = new Map<string, { cancel: AbortController; conversation: string }>();

  constructor(private readonly options: AgentOptions) {
    this.server = new LanguageServer((stale) => options.locator.locate(stale), options.ideVersion);
    this.panel = options.panel ?? new Panel(options.commands);
  }

  // state looks for the agent. It takes less than a second if the system lists processes quickly.
  async state(): Promise<AgentState> {
    const commands = await this.options.commands.list();
    const present = this.options.isAgentEditor() || commands.some((name) => name.startsWith("antigravity."));
    if (!present) {
      return { present, submit: false, busy: false, server: undefined };
    }
    const server = await this.options.locator.verified(verifyTime);
    return { present, submit: await this.panel.canSubmit(), busy: this.panel.busy, server };
  }

  methods(): [string, Method][] {
    return [
      ["llm/ask", (params, caller) => this.ask(params, caller)],
      ["llm/submit", (params) => this.submit(params)],
      ["llm/cancel", (params) => this.cancel(params.nonEmpty("id"))],
      ["state/recent", (params) => this.recent(params.integer("limit", 1, 1_000) ?? 10)],
    ];
  }

  private async need(): Promise<AgentState> {
    const state = await this.state();
    if (!state.present) {
      throw new RpcError(codes.noAgent, "this editor has no agent that perigee knows", { class: "unimplemented" });
    }
    return state;
  }

  private async ask(params: Params, caller: Caller): Promise<Json> {
    const id = params.nonEmpty("id");
    const conversation = params.optionalString("conversation") || undefined;
    const prompt = conversation === undefined ? params.nonEmpty("prompt") : params.string("prompt");
    const seconds = params.integer("timeout_seconds", 1, maxSeconds);
    const workspace = params.optionalString("workspace");
    const [model, readOnly] = [params.optionalString("model") || undefined, params.boolean("read_only")];
    const state = await this.need();
    if (workspace !== undefined && workspace !== "") {
      await this.options.inside(workspace);
    }
    if (state.server === undefined) {
      const instead = state.submit ? "; llm/submit can hand the prompt over" : "";
      throw new RpcError(codes.noAgent, `the language server of this window was not found, so an answer cannot be read${instead}`, { class: "unavailable" });
    }
    const running = this.begin(id, conversation);
    try {
      return await ask(this.server, this.panel, {
        prompt, model, conversation, readOnly,
        deadline: seconds === undefined ? undefined : Date.now() + seconds * 1_000,
        left: caller.signal,
        cancelled: running.cancel.signal,
        progress: (now, text, steps) => {
          running.conversation = now;
          caller.notify("llm/progress", { id, text, steps, conversation: now });
        },
      });
    } finally {
      this.asks.delete(id);
    }
  }

  private begin(id: string, conversation: string | undefined): { cancel: AbortController; conversation: string } {
    const all = [...this.asks.values()];
    if (this.asks.has(id)) {
      throw badParams("another ask with this id is running");
    }
    if (all.length >= maxAsks) {
      throw new RpcError(codes.busy, `${maxAsks} asks are running`, { class: "capacity" });
    }
    if (conversation !== undefined && all.some((each) => each.conversation === conversation)) {
      throw new RpcError(codes.busy, "another ask is running in this conversation", { class: "unavailable" });
    }
    const running = { cancel: new AbortController(), conversation: conversation ?? "" };
    this.asks.set(id, running);
    return running;
  }

  // cancel stops the agent of an ask, which then ends with the status cancelled. An ask that has ended is no error.
  private cancel(id: string): Json {
    this.asks.get(id)?.cancel.abort();
    return {};
  }

  private async submit(params: Params): Promise<Json> {
    params.nonEmpty("id");
    const prompt = params.nonEmpty("prompt");
    const conversation = params.optionalString("conversation") || undefined;
    await this.need();
    const release = this.panel.hold();
    try {
      const before = await this.panel.recent();
      const submitted = new Date().toISOString();
      const degraded = [...before.degraded, ...(await this.panel.submit(prompt, conversation))];
      this.reportAll(degraded);
      const known = before.conversations.map(({ id, modified, steps }) => ({ id, steps, ...(modified === "" ? {} : { modified }) }));
      return { submitted, before: known, ...(degraded.length > 0 ? { degraded } : {}) };
    } finally {
      release();
    }
  }

  private async recent(limit: number): Promise<Json> {
    const state = await this.need();
    const degraded: string[] = [];
    if (state.server !== undefined) {
      try {
        const all = await this.server.conversations();
        return { conversations: all.slice(0, limit).map(({ modified, ...each }) => ({ ...each, ...(modified === "" ? {} : { modified }) })) };
      } catch (error) {
        degraded.push(`the language server: ${messageOf(error)}`);
      }
    }
    const listed = await this.panel.recent();
    degraded.push(...listed.degraded);
    this.reportAll(degraded);
    const conversations = listed.conversations.slice(0, limit).map(({ id, title, modified, steps }) => ({
      id, title, workspace: "", status: "unknown", steps, ...(modified === "" ? {} : { modified }),
    }));
    return { conversations, ...(degraded.length > 0 ? { degraded } : {}) };
  }

  // show makes a conversation visible in the IDE.
  async show(conversation: string): Promise<void> {
    const state = await this.need();
    if (await this.panel.show(conversation)) {
      return;
    }
    if (state.server === undefined) {
      throw new RpcError(codes.noAgent, "this editor has no command that shows a conversation", { class: "unimplemented" });
    }
    try {
      await this.server.focus(conversation);
    } catch (error) {
      throw new RpcError(codes.noAgent, `the conversation cannot be shown: ${messageOf(error)}`, { class: "unavailable" });
    }
  }

  private reportAll(problems: readonly string[]): void {
    for (const problem of problems) {
      this.options.report(problem);
    }
  }
}
