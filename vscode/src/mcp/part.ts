import * as vscode from "vscode";

import { findBinary, missingBinary } from "../binary.js";
import type { Host, Part } from "../part.js";

// mcp offers perigee's MCP server to the editor: "perigee mcp" as a child of the extension host, with the folders of the window as roots.
export const mcp: Part = {
  name: "mcp",
  activate(host: Host): void {
    if (typeof vscode.lm?.registerMcpServerDefinitionProvider !== "function") {
      host.log.info("this editor has no API for MCP servers of extensions (VS Code 1.101 or later has one)");
      host.report("mcp", "not available in this editor", false);
      return;
    }
    const changed = new vscode.EventEmitter<void>();
    host.context.subscriptions.push(
      changed,
      vscode.workspace.onDidChangeWorkspaceFolders(() => changed.fire()),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("perigee.binary")) {
          changed.fire();
        }
      }),
      vscode.lm.registerMcpServerDefinitionProvider("perigee", new Servers(host, changed.event)),
    );
  },
};

// Servers has one definition, or none while the program is missing. The editor asks without the user having asked, so a missing program
// is said in the log and in the status only.
export class Servers implements vscode.McpServerDefinitionProvider<vscode.McpStdioServerDefinition> {
  private said = "";

  constructor(
    private readonly host: Host,
    readonly onDidChangeMcpServerDefinitions: vscode.Event<void>,
  ) {}

  async provideMcpServerDefinitions(): Promise<vscode.McpStdioServerDefinition[]> {
    const found = await findBinary(setting());
    if (!found) {
      this.say(missingBinary(setting()), true);
      return [];
    }
    const roots = rootArguments();
    const version = String((this.host.context.extension.packageJSON as { version?: unknown }).version ?? "0");
    const definition = new vscode.McpStdioServerDefinition("perigee", found, ["mcp", ...roots.args], {}, `${version} ${roots.args.join(" ")}`);
    if (roots.first) {
      definition.cwd = roots.first;
    }
    this.say(`${found} mcp`, false);
    return [definition];
  }

  // resolveMcpServerDefinition is called when the server is started, so the user is told what is missing.
  async resolveMcpServerDefinition(definition: vscode.McpStdioServerDefinition): Promise<vscode.McpStdioServerDefinition> {
    const found = await findBinary(setting());
    if (!found) {
      throw new Error(missingBinary(setting()));
    }
    definition.command = found;
    return definition;
  }

  private say(text: string, problem: boolean): void {
    this.host.report("mcp", text, problem);
    if (text !== this.said) {
      this.said = text;
      if (problem) {
        this.host.log.warn(`no MCP server: ${text}`);
      } else {
        this.host.log.info(`MCP server: ${text}`);
      }
    }
  }
}

function setting(): string {
  return vscode.workspace.getConfiguration("perigee").get("binary", "perigee");
}

// rootArguments names the folders of the window that are on this machine's disk.
function rootArguments(): { args: string[]; first: vscode.Uri | undefined } {
  const folders = (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file");
  return { args: folders.flatMap((folder) => ["--root", folder.uri.fsPath]), first: folders[0]?.uri };
}
