import type * as vscode from "vscode";

// A Host is what every part of the extension gets.
export interface Host {
  readonly context: vscode.ExtensionContext;
  readonly log: vscode.LogOutputChannel;
  // report shows a line about a part in the status bar item, in place of its last one.
  report(part: string, line: string, problem?: boolean): void;
}

// A Part is a feature of the extension that works without the other parts. What it creates goes to host.context.subscriptions.
export interface Part {
  readonly name: string;
  activate(host: Host): void | Promise<void>;
}
