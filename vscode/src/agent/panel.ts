import { badParams, codes, RpcError } from "../bridge/errors.js";
import { isObject, listAt, messageOf, numberAt, parse, stringAt } from "../json.js";
import { PayloadEncoder } from "./payload.js";

// Commands are the commands of the editor.
export interface Commands {
  list(): Promise<readonly string[]>;
  run(command: string, ...args: unknown[]): Promise<unknown>;
}

// A Recent is a conversation that the diagnostics of the IDE list.
export interface Recent {
  readonly id: string;
  readonly title: string;
  readonly modified: string; // RFC 3339; "": unknown
  readonly steps: number; // 0: unknown
}

const names = {
  send: "antigravity.sendPromptToAgentPanel",
  action: "antigravity.sendChatActionMessage",
  create: "antigravity.startNewConversation",
  show: "antigravity.setVisibleConversation",
  diagnostics: "antigravity.getDiagnostics",
};

const usualTimes = {
  settle: 700, // between a new conversation and its first message: the panel opens meanwhile
  command: 15_000, // for a command
};

// A Panel is the agent panel of the IDE, which only commands reach. They return nothing, so a prompt that was handed over has to be
// found in a list of conversations.
export class Panel {
  private held = false;

  constructor(
    private readonly commands: Commands,
    private readonly times = usualTimes,
  ) {}

  get busy(): boolean {
    return this.held;
  }

  // hold makes the panel busy until the returned function is called. Two prompts at once would get into one conversation.
  hold(): () => void {
    if (this.held) {
      throw new RpcError(codes.busy, "another prompt is on its way to the agent panel");
    }
    this.held = true;
    return () => (this.held = false);
  }

  // canSubmit reports whether the IDE has a command for prompts.
  async canSubmit(): Promise<boolean> {
    const all = await this.commands.list();
    return all.includes(names.send) || all.includes(names.action);
  }

  // submit hands a prompt to the panel: in a new conversation, or in the given one. It returns what did not go as it should.
  async submit(prompt: string, conversation: string | undefined): Promise<string[]> {
    const all = await this.commands.list();
    if (!all.includes(names.send) && !all.includes(names.action)) {
      throw new RpcError(codes.noAgent, "this editor has no command that hands a prompt to an agent", { class: "unimplemented" });
    }
    const open = conversation === undefined ? names.create : names.show;
    const degraded: string[] = [];
    if (all.includes(open)) {
      await this.run(open, ...(conversation === undefined ? [] : [conversation]));
      await new Promise((resolve) => setTimeout(resolve, this.times.settle));
    } else if (conversation !== undefined) {
      throw badParams("this editor has no command that opens a conversation: leave conversation out", "unimplemented");
    } else {
      degraded.push(`the command ${open} is missing: the prompt goes to the conversation that is open`);
    }
    const [command, argument] = all.includes(names.send) ? [names.send, prompt] : [names.action, PayloadEncoder.sendMessage(prompt)];
    try {
      await this.run(command, argument);
    } catch (error) {
      degraded.push(`${command}: ${messageOf(error)}`); // the panel may have got it
    }
    return degraded;
  }

  // recent reads the last conversations from the diagnostics of the IDE. Nothing else of them, such as names and logs, is used.
  async recent(): Promise<{ conversations: Recent[]; degraded: string[] }> {
    const missing = (problem: string) => ({ conversations: [], degraded: [`${names.diagnostics}: ${problem}`] });
    if (!(await this.commands.list()).includes(names.diagnostics)) {
      return missing("there is no such command");
    }
    let result: unknown;
    try {
      result = await this.run(names.diagnostics);
    } catch (error) {
      return missing(messageOf(error));
    }
    const value = typeof result === "string" ? parse(result) : result;
    if (!isObject(value) || !Array.isArray(value["recentTrajectories"])) {
      return missing("the result has no list recentTrajectories");
    }
    const entries = listAt(value, "recentTrajectories");
    const conversations = entries.flatMap(recentOf);
    const lost = entries.length - conversations.length;
    return { conversations, degraded: lost === 0 ? [] : [`${names.diagnostics}: ${lost} of ${entries.length} conversations have no id`] };
  }

  // show makes a conversation visible, and reports whether there is a command for that.
  async show(conversation: string): Promise<boolean> {
    if (!(await this.commands.list()).includes(names.show)) {
      return false;
    }
    await this.run(names.show, conversation);
    return true;
  }

  private run(command: string, ...args: unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer within ${this.times.command} ms`)), this.times.command);
      this.commands.run(command, ...args).then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }
}

function recentOf(entry: unknown): Recent[] {
  const id = stringAt(entry, "googleAgentId") || stringAt(entry, "cascadeId");
  if (id === "") {
    return [];
  }
  const last = numberAt(entry, "lastStepIndex");
  const time = isObject(entry) ? entry["lastModifiedTime"] : undefined;
  return [{ id, title: stringAt(entry, "summary"), modified: timeOf(time), steps: last === undefined ? 0 : last + 1 }];
}

// timeOf reads a time as a text, or in milliseconds.
function timeOf(value: unknown): string {
  const time = typeof value === "string" || typeof value === "number" ? new Date(value) : undefined;
  return time === undefined || Number.isNaN(time.getTime()) ? "" : time.toISOString();
}
