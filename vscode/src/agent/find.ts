import type { LanguageServer } from "./languageserver.js";
import type { Panel } from "./panel.js";
import { isPrompt } from "./steps.js";

// KnownSteps are the conversations before a prompt was submitted, and how many steps they had.
export type KnownSteps = ReadonlyMap<string, number>;

const usualTimes = { window: 10_000, pause: 300 };

// knownConversations lists conversations: those of the language server, or if it does not list them those of the diagnostics.
export async function knownConversations(server: LanguageServer, panel: Panel): Promise<KnownSteps> {
  const all = await server.conversations().catch(async () => (await panel.recent()).conversations);
  return new Map(all.map((each) => [each.id, each.steps]));
}

export interface FindOptions {
  readonly prompt: string;
  readonly before: KnownSteps;
  readonly left: AbortSignal;
  readonly cancelled: AbortSignal;
}

interface Found {
  readonly conversation: string;
  readonly step: number;
}

// findPrompt finds the conversation to which the panel gave a prompt: the only one with new steps of which one has exactly this text.
// If there is none, or more than one, it returns why.
export async function findPrompt(server: LanguageServer, panel: Panel, options: FindOptions, times = usualTimes): Promise<Found | string> {
  const { prompt, before, left, cancelled } = options;
  for (const end = Date.now() + times.window; Date.now() < end && !left.aborted && !cancelled.aborted; ) {
    const now = await knownConversations(server, panel);
    const changed = [...now].filter(([id, steps]) => steps > (before.get(id) ?? -1));
    const matches = (await Promise.all(changed.map(([id]) => match(server, id, before.get(id) ?? 0, prompt)))).flat();
    const [only, ...more] = matches;
    if (only !== undefined) {
      return more.length === 0 ? only : `the prompt is in several conversations: ${matches.map((each) => each.conversation).join(", ")}`;
    }
    await new Promise((resolve) => setTimeout(resolve, times.pause));
  }
  return "no conversation shows the prompt";
}

async function match(server: LanguageServer, conversation: string, from: number, prompt: string): Promise<Found[]> {
  const reading = await server.read(conversation, from).catch(() => undefined);
  const at = reading?.steps.findIndex((step) => isPrompt(step, prompt)) ?? -1;
  return at < 0 ? [] : [{ conversation, step: from + at }];
}
