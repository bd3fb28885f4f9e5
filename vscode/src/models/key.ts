import type * as vscode from "vscode";

const secret = "perigee.key";

// A Key is the client key for perigee, in the editor's secret storage. It is stored with the origin that it was entered for, and is given
// to that origin only: a changed setting perigee.url must not send it elsewhere.
export class Key {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  async get(url: string): Promise<string | undefined> {
    const stored = await this.secrets.get(secret);
    if (!stored) {
      return undefined;
    }
    try {
      const { origin, key } = JSON.parse(stored) as { origin?: unknown; key?: unknown };
      return origin === new URL(url).origin && typeof key === "string" ? key : undefined;
    } catch {
      return undefined;
    }
  }

  async set(url: string, key: string): Promise<void> {
    if (key === "") {
      await this.secrets.delete(secret);
    } else {
      await this.secrets.store(secret, JSON.stringify({ origin: new URL(url).origin, key }));
    }
  }

  onDidChange(listener: () => void): vscode.Disposable {
    return this.secrets.onDidChange((event) => {
      if (event.key === secret) {
        listener();
      }
    });
  }
}

// problemOf says what is wrong with a key that was typed in; nothing for an empty one, which removes the key.
export function problemOf(key: string): string | undefined {
  return /^[\x21-\x7e]{0,4096}$/.test(key) ? undefined : "A key has no spaces and only ASCII characters.";
}
