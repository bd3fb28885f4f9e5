import { createHash } from "node:crypto";

import { messageOf } from "../json.js";
import { answerOf, classify, failedAnswer, waitingAnswer, type Answer } from "./answer.js";
import { CallError } from "./call.js";
import type { LanguageServer, Reading } from "./languageserver.js";
import { inputText, isPrompt, readTurn, termination, type Turn } from "./steps.js";

// How long nothing may have changed before a turn counts as over, in milliseconds, by what is known about it. The status is idle for a
// moment after a message was sent and between two steps.
const quiet = { settled: 300, waiting: 500, idle: 1_500, noStatus: 2_000, pending: 5_000, noAnswer: 5_000 };

const usualTimes = {
  busy: 300, // between readings while something changes
  calm: 1_000, // … and while nothing does
  begin: 30_000, // for a message to be recorded
  patience: 15_000, // for a language server that does not answer
  cancel: 3_000, // for a language server to stop the agent
};

export interface FollowOptions {
  readonly conversation: string;
  readonly prompt: string; // empty: the last turn is followed
  readonly from: number; // the first step that may be the prompt
  readonly deadline: number | undefined; // in the time of Date.now
  readonly left: AbortSignal; // the client is gone: following ends, and the agent goes on
  readonly cancelled: AbortSignal; // the agent is to be stopped
  readonly progress: (text: string, steps: number) => void;
}

// follow reads a conversation until the turn is over, and returns how it ended.
export async function follow(server: LanguageServer, options: FollowOptions, times = usualTimes): Promise<Answer> {
  const f = new Follower(server, options, times);
  return f.run();
}

class Follower {
  private turn: Turn | undefined;
  private first = 0; // the index of the first step of the turn
  private seen = "";
  private changed = Date.now();
  private healthy = Date.now();
  private loaded = false;
  private readonly began = Date.now();
  private readonly ends: AbortSignal;

  constructor(
    private readonly server: LanguageServer,
    private readonly o: FollowOptions,
    private readonly times: typeof usualTimes,
  ) {
    this.ends = endOf(o);
  }

  async run(): Promise<Answer> {
    for (;;) {
      const answer = (await this.interrupted()) ?? (await this.look());
      if (answer !== undefined) {
        return answer;
      }
      await this.pause(Date.now() - this.changed < 5 * this.times.calm ? this.times.busy : this.times.calm);
    }
  }

  private async interrupted(): Promise<Answer | undefined> {
    const { conversation, cancelled } = this.o;
    if (cancelled.aborted) {
      await this.stop();
      return answerOf(conversation, "cancelled", this.turn);
    }
    return this.ends.aborted ? answerOf(conversation, "timeout", this.turn) : undefined;
  }

  // stop stops the agent, and reads what it has written by then.
  private async stop(): Promise<void> {
    const { conversation } = this.o;
    const done = this.server.cancel(conversation).then(() => this.read());
    const limit = new Promise((resolve) => setTimeout(resolve, this.times.cancel).unref());
    await Promise.race([done.catch(() => undefined), limit]);
  }

  private async look(): Promise<Answer | undefined> {
    let reading: Reading;
    try {
      reading = await this.read(this.ends);
      this.healthy = Date.now();
    } catch (error) {
      return this.unreadable(error);
    }
    if (this.turn === undefined) {
      return Date.now() - this.began < this.times.begin
        ? undefined
        : failedAnswer(this.o.conversation, undefined, {
            class: "unavailable",
            message: "the prompt was sent, but the conversation does not show it",
            hint: "ask with this conversation and an empty prompt to see whether the agent has begun",
          });
    }
    return this.outcome(reading, this.turn, Date.now() - this.changed);
  }

  private async read(signal?: AbortSignal): Promise<Reading> {
    const reading = await this.server.read(this.o.conversation, this.o.from, signal);
    const at = this.startOf(reading);
    if (at >= 0) {
      this.turn = readTurn(reading.steps.slice(at));
      this.first = reading.first + at;
    }
    const now = createHash("sha256").update(JSON.stringify([reading.status, reading.executor, reading.steps])).digest("hex");
    if (now !== this.seen) {
      this.seen = now;
      this.changed = Date.now();
      this.o.progress(this.turn?.text ?? "", this.turn?.steps ?? 0);
    }
    return reading;
  }

  private startOf(reading: Reading): number {
    if (this.o.prompt === "") {
      return reading.steps.findLastIndex((step) => inputText(step) !== undefined);
    }
    return reading.steps.findIndex((step) => isPrompt(step, this.o.prompt));
  }

  // unreadable waits for a language server that may be starting again. A conversation that it does not know then is loaded, once.
  private async unreadable(error: unknown): Promise<Answer | undefined> {
    if (error instanceof CallError && error.isUnknownConversation && !this.loaded) {
      this.loaded = true;
      await this.server.load(this.o.conversation).catch(() => undefined);
      return undefined;
    }
    if (this.ends.aborted) {
      return undefined;
    }
    if (Date.now() - this.healthy < this.times.patience && !(error instanceof CallError && error.kind === "answered")) {
      return undefined;
    }
    return failedAnswer(this.o.conversation, this.turn, {
      class: "unavailable",
      message: `the conversation can no longer be read: ${messageOf(error)}`,
      hint: "look at the conversation in the IDE before you ask again: the agent may go on",
    });
  }

  // outcome is how the turn ended, if nothing has changed for so long.
  private outcome(reading: Reading, turn: Turn, still: number): Answer | undefined {
    const id = this.o.conversation;
    if (turn.waiting.length > 0) {
      return still >= quiet.waiting ? waitingAnswer(id, turn, turn.waiting.join("; ")) : undefined;
    }
    if (["RUNNING", "CANCELING", "BUSY"].includes(reading.status)) {
      return undefined;
    }
    const reason = termination(reading.executor, turn, this.first);
    const silent = turn.answers === 0 && !turn.cancelled && reason === "";
    if (still < this.needed(reading.status, reason, turn, silent)) {
      return undefined;
    }
    return silent
      ? failedAnswer(id, turn, { class: "unavailable", message: "the prompt was recorded, and nothing was generated", hint: "choose another model, or look at the conversation in the IDE" })
      : ended(id, turn, reason);
  }

  // needed is how long nothing may have changed.
  private needed(status: string, reason: string, turn: Turn, silent: boolean): number {
    const known = reason !== "";
    if (known && status !== "") {
      return turn.pending ? quiet.idle : 0;
    }
    if (turn.pending) {
      return status === "" ? Infinity : quiet.pending;
    }
    if (silent) {
      return status === "" ? Infinity : quiet.noAnswer;
    }
    if (status === "") {
      return known || turn.complete || turn.failure !== undefined || turn.cancelled ? quiet.noStatus : Infinity;
    }
    return turn.complete ? quiet.settled : quiet.idle;
  }

  // pause ends early when the ask does.
  private pause(time: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.ends.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, time);
      this.ends.addEventListener("abort", end);
    });
  }
}

// endOf ends when an ask does: its client is gone, it is cancelled, or it is out of time.
export function endOf(ask: Pick<FollowOptions, "left" | "cancelled" | "deadline">): AbortSignal {
  const signals = [ask.left, ask.cancelled];
  return AbortSignal.any(ask.deadline === undefined ? signals : [...signals, AbortSignal.timeout(Math.max(0, ask.deadline - Date.now()))]);
}

function ended(id: string, turn: Turn, reason: string): Answer {
  if (reason === "USER_CANCELED" || (reason === "" && turn.failure === undefined && turn.cancelled)) {
    return answerOf(id, "cancelled", turn);
  }
  if (reason === "MAX_INVOCATIONS" || reason === "MAX_FORCED_INVOCATIONS") {
    return waitingAnswer(id, turn, "the agent used up its steps; send another message to let it go on");
  }
  const normal = ["NO_TOOL_CALL", "TERMINAL_STEP_TYPE", "TERMINAL_CUSTOM_HOOK", "INJECTED_RESPONSE"].includes(reason);
  if (reason === "ERROR" || (turn.failure !== undefined && !normal)) {
    return failedAnswer(id, turn, classify(turn.failure ?? {}));
  }
  return answerOf(id, "done", turn);
}
