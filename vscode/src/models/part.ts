import * as vscode from "vscode";

import type { Host, Part } from "../part.js";
import { baseURL, Client, PerigeeError } from "./client.js";
import { Key, problemOf } from "./key.js";
import { Provider } from "./provider.js";

// models offers perigee's models to the editor's Chat, and to extensions through vscode.lm.
export const models: Part = {
  name: "models",
  activate(host: Host): void {
    const { context, log } = host;
    const key = new Key(context.secrets);
    const userAgent = `perigee-vscode/${String((context.extension.packageJSON as { version?: unknown }).version ?? "0")}`;
    const url = () => vscode.workspace.getConfiguration("perigee").get("url", "http://127.0.0.1:8741");

    const provider = new Provider({
      log,
      client: async () => new Client({ url: url(), key: await key.get(baseURL(url())), userAgent }),
      report: (text, problem) => host.report("models", text, problem),
      explain: (error) => void explain(error, provider),
    });
    context.subscriptions.push(
      provider,
      vscode.commands.registerCommand("perigee.setKey", () => setKey(key, url())),
      vscode.commands.registerCommand("perigee.refreshModels", () => refresh(provider)),
      key.onDidChange(() => provider.refresh()),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("perigee.url")) {
          provider.refresh();
        }
      }),
      vscode.window.onDidChangeWindowState((state) => {
        if (state.focused) {
          provider.refreshIfMissing();
        }
      }),
    );
    // Editors that were built before this API, or without it, have the bridge and the MCP server only.
    if (typeof vscode.lm?.registerLanguageModelChatProvider !== "function") {
      log.info("this editor has no API for chat models (VS Code 1.104 or later has one)");
      host.report("models", "not available in this editor", false);
      return;
    }
    context.subscriptions.push(vscode.lm.registerLanguageModelChatProvider("perigee", provider));
    provider.refresh(); // the editor reads the list of a new provider only after it has changed
  },
};

// setKey asks for the client key. An empty one removes it.
async function setKey(key: Key, url: string): Promise<void> {
  let target: string;
  try {
    target = baseURL(url);
  } catch (error) {
    void vscode.window.showErrorMessage((error as Error).message);
    return;
  }
  const typed = await vscode.window.showInputBox({
    title: `Key for perigee at ${new URL(target).origin}`,
    prompt: "A secret from keys in perigee's configuration. Leave it empty to remove the key.",
    password: true,
    ignoreFocusOut: true,
    validateInput: problemOf,
  });
  if (typed !== undefined) {
    await key.set(target, typed);
  }
}

// refresh reads the list for the user, and reports the result.
async function refresh(provider: Provider): Promise<void> {
  const source = new vscode.CancellationTokenSource();
  try {
    const found = await provider.provideLanguageModelChatInformation({ silent: false }, source.token);
    provider.refresh();
    if (found.length > 0) {
      void vscode.window.showInformationMessage(`perigee offers ${found.length} models.`);
    }
  } finally {
    source.dispose();
  }
}

async function explain(error: Error, provider: Provider): Promise<void> {
  const setTheKey = "Set Key";
  const settings = "Open Settings";
  const again = "Try Again";
  const locked = error instanceof PerigeeError && error.errorClass === "unauthenticated";
  const actions = locked ? [setTheKey, settings] : [again, settings];
  switch (await vscode.window.showErrorMessage(`perigee: ${error.message}`, ...actions)) {
    case setTheKey:
      await vscode.commands.executeCommand("perigee.setKey");
      break;
    case settings:
      await vscode.commands.executeCommand("workbench.action.openSettings", "perigee.url");
      break;
    case again:
      await refresh(provider);
  }
}
