import * as fs from "node:fs";
import * as path from "node:path";

import * as vscode from "vscode";

import type { Commands } from "../agent/panel.js";
import { parse, stringAt } from "../json.js";
import type { Editor } from "./bridge.js";

// folders are the directories of the window that are on a disk of this machine.
export function folders(): string[] {
  return (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath);
}

// workspaceNames are the workspace file and the first folder: a language server has the name of one of them.
export function workspaceNames(): string[] {
  const file = vscode.workspace.workspaceFile;
  return [...(file?.scheme === "file" ? [file.fsPath] : []), ...folders().slice(0, 1)];
}

export const editorCommands: Commands = {
  list: async () => vscode.commands.getCommands(true),
  run: async (command, ...args) => vscode.commands.executeCommand(command, ...args),
};

export function thisEditor(): Editor {
  const { appName, appRoot } = vscode.env;
  return { ide: { name: appName, version: ideVersion(appRoot) || vscode.version }, folders, showFile };
}

// ideVersion is the version of an IDE that is built from VS Code; "" if it has none of its own.
function ideVersion(appRoot: string): string {
  try {
    return stringAt(parse(fs.readFileSync(path.join(appRoot, "product.json"), "utf8")), "ideVersion");
  } catch {
    return "";
  }
}

async function showFile(file: string, line: number | undefined): Promise<void> {
  const at = line === undefined ? {} : { selection: new vscode.Range(line - 1, 0, line - 1, 0) };
  await vscode.commands.executeCommand("vscode.open", vscode.Uri.file(file), { preview: false, ...at });
}
