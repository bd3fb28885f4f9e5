// A stand-in of the vscode module for unit tests: only what the code under test touches. The extension itself is tested in a real
// extension host.
export const window = {};
export const workspace = {};
export const commands = {};
export const env = {};

export class EventEmitter<T> {
  private readonly listeners = new Set<(value: T) => void>();
  readonly event = (listener: (value: T) => void) => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };
  fire(value: T): void {
    this.listeners.forEach((listener) => listener(value));
  }
  dispose(): void {
    this.listeners.clear();
  }
}

export class CancellationError extends Error {}

export class LanguageModelError extends Error {
  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
  static NotFound = (message: string) => new LanguageModelError(message, "NotFound");
  static NoPermissions = (message: string) => new LanguageModelError(message, "NoPermissions");
  static Blocked = (message: string) => new LanguageModelError(message, "Blocked");
}

export enum LanguageModelChatMessageRole {
  User = 1,
  Assistant = 2,
}

export enum LanguageModelChatToolMode {
  Auto = 1,
  Required = 2,
}

export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}

export class LanguageModelPromptTsxPart {
  constructor(readonly value: unknown) {}
}

export class LanguageModelToolCallPart {
  constructor(
    readonly callId: string,
    readonly name: string,
    readonly input: object,
  ) {}
}

export class LanguageModelToolResultPart {
  constructor(
    readonly callId: string,
    readonly content: unknown[],
  ) {}
}
