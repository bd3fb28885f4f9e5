import * as vscode from "vscode";

import { bridgePart } from "./bridge/part.js";
import { messageOf } from "./json.js";
import { mcp } from "./mcp/part.js";
import { models } from "./models/part.js";
import type { Host, Part } from "./part.js";
import { Status } from "./status.js";

// activate starts every part. A part that fails is logged and does not stop the parts after it.
export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("perigee", { log: true });
  const status = new Status();
  context.subscriptions.push(log, status);
  const report = (part: string, line: string, problem?: boolean) => status.report(part, line, problem);
  await startParts([bridgePart(status), models, mcp], { context, log, report });
}

export async function startParts(list: readonly Part[], host: Host): Promise<void> {
  for (const part of list) {
    try {
      await part.activate(host);
    } catch (error) {
      host.log.error(`${part.name} did not start: ${messageOf(error)}`);
      host.report(part.name, `did not start: ${messageOf(error)}`, true);
    }
  }
}
