import * as vscode from "vscode";

import { type Client, PerigeeError } from "./client.js";
import { countable, information, request } from "./convert.js";
import { TokenCounter } from "./tokens.js";

const listTimeout = 5_000;

export interface ProviderOptions {
  readonly client: () => Promise<Client>; // with the present URL and key
  readonly log: Pick<vscode.LogOutputChannel, "info" | "warn" | "debug">;
  readonly report: (text: string, problem: boolean) => void;
  readonly explain: (error: Error) => void; // shows an error with what to do, after an action of the user
}

// A Provider offers perigee's models to the editor. Nothing is asked unless the editor or the user asks: the list is read when the editor
// wants it, after a changed setting or key, by command, and when a window without models gets the focus.
export class Provider implements vscode.LanguageModelChatProvider {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeLanguageModelChatInformation = this.changed.event;
  private readonly counter: TokenCounter;
  private said = "";
  private missing = false; // the last list was not to be had

  constructor(private readonly options: ProviderOptions) {
    this.counter = new TokenCounter(options.client);
  }

  dispose(): void {
    this.changed.dispose();
  }

  // refresh has the editor read the list again.
  refresh(): void {
    this.changed.fire();
  }

  refreshIfMissing(): void {
    if (this.missing) {
      this.changed.fire();
    }
  }

  async provideLanguageModelChatInformation(
    how: vscode.PrepareLanguageModelChatModelOptions,
    token: vscode.CancellationToken,
  ): Promise<vscode.LanguageModelChatInformation[]> {
    const { signal, done } = abortable(token, listTimeout);
    try {
      const client = await this.options.client();
      const models = await client.models(signal);
      this.missing = models.length === 0;
      this.say(`${models.length} models of ${client.url}`, false);
      return models.map(information);
    } catch (error) {
      if (token.isCancellationRequested) {
        return [];
      }
      this.missing = true;
      this.say((error as Error).message, true);
      if (!how.silent) {
        this.options.explain(error as Error);
      }
      return [];
    } finally {
      done();
    }
  }

  async provideLanguageModelChatResponse(
    model: vscode.LanguageModelChatInformation,
    messages: readonly vscode.LanguageModelChatRequestMessage[],
    how: vscode.ProvideLanguageModelChatResponseOptions,
    progress: vscode.Progress<vscode.LanguageModelResponsePart>,
    token: vscode.CancellationToken,
  ): Promise<void> {
    const { signal, done } = abortable(token);
    const { log } = this.options;
    const dropped = new Set<string>();
    let call = "";
    try {
      const client = await this.options.client();
      const body = request(model, messages, how, (what) => dropped.add(what));
      if (dropped.size > 0) {
        log.info(`not sent to ${model.id}: ${[...dropped].join(", ")}`);
      }
      const answer = client.stream(body, signal, (info) => {
        call = info.call;
        log.info(`call ${info.call}: ${info.model} of ${info.upstream}${info.notes === "" ? "" : `; notes: ${info.notes}`}`);
      });
      let content = false;
      for await (const piece of answer) {
        switch (piece.type) {
          case "text":
            progress.report(new vscode.LanguageModelTextPart(piece.text));
            content = true;
            break;
          case "call":
            progress.report(new vscode.LanguageModelToolCallPart(piece.id, piece.name, piece.input));
            content = true;
            break;
          case "end":
            log.debug(`call ${call}: ended (${piece.reason}), ${piece.input} tokens in, ${piece.output} out`);
            if (!content && piece.reason === "refusal") {
              throw new PerigeeError("the provider refused to answer; change the question", "forbidden");
            }
            if (piece.reason === "max_tokens") {
              log.warn(`call ${call}: the answer ends at the limit of ${String(body.max_tokens)} tokens`);
            }
        }
      }
    } catch (error) {
      if (token.isCancellationRequested) {
        throw new vscode.CancellationError();
      }
      log.warn(`call ${call || "without an id"} to ${model.id} failed: ${(error as Error).message}`);
      throw editorError(error as Error);
    } finally {
      done();
    }
  }

  async provideTokenCount(
    model: vscode.LanguageModelChatInformation,
    what: string | vscode.LanguageModelChatRequestMessage,
    token: vscode.CancellationToken,
  ): Promise<number> {
    if (what === "") {
      return 0;
    }
    const { signal, done } = abortable(token);
    try {
      return await this.counter.count(model.id, countable(what), signal);
    } finally {
      done();
    }
  }

  // say logs and reports a state of the list when it is another one than before.
  private say(text: string, problem: boolean): void {
    this.options.report(text, problem);
    if (text !== this.said) {
      this.said = text;
      if (problem) {
        this.options.log.warn(`no chat models: ${text}`);
      } else {
        this.options.log.info(`chat models: ${text}`);
      }
    }
  }
}

// editorError is an error with the code that callers of the editor's API look for.
export function editorError(error: Error): Error {
  switch (error instanceof PerigeeError ? error.errorClass : "") {
    case "not_found":
      return vscode.LanguageModelError.NotFound(error.message);
    case "unauthenticated":
    case "forbidden":
    case "identity_refused":
    case "verification_required":
      return vscode.LanguageModelError.NoPermissions(error.message);
    case "exhausted":
    case "rate_limited":
      return vscode.LanguageModelError.Blocked(error.message);
  }
  return new Error(error.message);
}

// abortable is a signal that follows a token of the editor, and a time limit if there is one. done releases both.
function abortable(token: vscode.CancellationToken, limit?: number): { signal: AbortSignal; done: () => void } {
  const controller = new AbortController();
  const subscription = token.onCancellationRequested(() => controller.abort());
  if (token.isCancellationRequested) {
    controller.abort();
  }
  const timer =
    limit === undefined ? undefined : setTimeout(() => controller.abort(new DOMException("too late", "TimeoutError")), limit);
  return {
    signal: controller.signal,
    done: () => {
      clearTimeout(timer);
      subscription.dispose();
      controller.abort(); // ends what was not read to its end
    },
  };
}
