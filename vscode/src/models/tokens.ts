import { createHash } from "node:crypto";

import type { Client, Message } from "./client.js";

const maxEntries = 2000;
const atOnce = 4;
const timeout = 3_000;
const pause = 30_000;

// A TokenCounter counts tokens through perigee. The editor counts every piece of a prompt by itself, so results are cached, at most
// four calls run at once, and after a failure, or an answer that takes more than three seconds, tokens are estimated for half a minute.
export class TokenCounter {
  private readonly known = new Map<string, number>();
  private running = 0;
  private readonly waiting: (() => void)[] = [];
  private estimateUntil = 0;

  constructor(
    private readonly client: () => Promise<Client>,
    private readonly now: () => number = Date.now,
  ) {}

  async count(model: string, messages: Message[], signal: AbortSignal): Promise<number> {
    if (messages.length === 0) {
      return 0;
    }
    const json = JSON.stringify(messages);
    const key = createHash("sha256").update(model).update("\0").update(json).digest("base64");
    const before = this.known.get(key);
    if (before !== undefined) {
      return before;
    }
    if (this.now() < this.estimateUntil) {
      return estimate(messages);
    }
    if (this.running >= atOnce) {
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    } else {
      this.running++;
    }
    try {
      if (this.now() < this.estimateUntil) {
        return estimate(messages);
      }
      const client = await this.client();
      const tokens = await client.countTokens(model, messages, AbortSignal.any([signal, AbortSignal.timeout(timeout)]));
      if (this.known.size >= maxEntries) {
        this.known.delete(this.known.keys().next().value ?? "");
      }
      this.known.set(key, tokens);
      return tokens;
    } catch {
      if (!signal.aborted) {
        this.estimateUntil = this.now() + pause;
      }
      return estimate(messages);
    } finally {
      const next = this.waiting.shift(); // which takes over this place
      if (next) {
        next();
      } else {
        this.running--;
      }
    }
  }
}

// estimate is four bytes of text per token, and what Gemini counts for an image.
export function estimate(messages: readonly Message[]): number {
  let tokens = 0;
  for (const block of messages.flatMap((message) => message.content)) {
    if (block.type === "text") {
      tokens += Math.ceil(Buffer.byteLength(block.text) / 4);
    } else if (block.type === "image") {
      tokens += 258;
    }
  }
  return tokens;
}
