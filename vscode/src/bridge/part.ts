import * as os from "node:os";
import * as path from "node:path";

import * as vscode from "vscode";

import { Agent } from "../agent/agent.js";
import { Locator } from "../agent/locate.js";
import { findBinary, missingBinary } from "../binary.js";
import { Workspace } from "../files/workspace.js";
import { messageOf } from "../json.js";
import type { Host, Part } from "../part.js";
import type { Status } from "../status.js";
import { bridgesDir, configDir } from "./announcement.js";
import { Bridge } from "./bridge.js";
import { editorCommands, folders, thisEditor, workspaceNames } from "./editor.js";
import { configFormats, type ConfigFormat } from "./mcpconfig.js";

// bridgePart starts the bridge of the window, and has its commands.
export function bridgePart(status: Status): Part {
  return { name: "bridge", activate: (host) => new Window(host, status).activate() };
}

class Window {
  private readonly bridge: Bridge;
  private problem = "";

  constructor(
    private readonly host: Host,
    private readonly status: Status,
  ) {
    const report = (problem: string) => this.host.log.info(problem);
    const workspace = new Workspace(folders, ownDirs);
    const editor = thisEditor();
    const agent = new Agent({
      commands: editorCommands,
      locator: new Locator(workspaceNames, report),
      isAgentEditor: () => /antigravity/i.test(vscode.env.appName),
      inside: (dir) => workspace.resolve(dir),
      ideVersion: editor.ide.version,
      report,
    });
    this.bridge = new Bridge({ editor, workspace, agent, report, changed: () => this.show() });
  }

  async activate(): Promise<void> {
    const { subscriptions } = this.host.context;
    subscriptions.push(
      { dispose: () => this.bridge.stop() },
      vscode.commands.registerCommand("perigee.start", () => this.start()),
      vscode.commands.registerCommand("perigee.stop", () => this.bridge.stop()),
      vscode.commands.registerCommand("perigee.copyMcpConfig", (format?: unknown) => this.copyConfig(format)),
      vscode.commands.registerCommand("perigee.showLog", () => this.host.log.show()),
      vscode.commands.registerCommand("perigee.menu", () => this.menu()),
      vscode.workspace.onDidChangeWorkspaceFolders(() => this.announce()),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("perigee.bridge.enabled")) {
          void (enabled() ? this.start() : this.bridge.stop());
        }
      }),
    );
    this.show();
    if (enabled()) {
      await this.start();
    }
  }

  private async start(): Promise<void> {
    this.problem = "";
    try {
      await this.bridge.start();
      this.host.log.info(`the bridge listens on 127.0.0.1:${this.bridge.port}`);
    } catch (error) {
      this.fail(`it cannot be started: ${messageOf(error)}`);
    }
  }

  private announce(): void {
    try {
      this.bridge.announce();
    } catch (error) {
      this.fail(`the folders cannot be announced: ${messageOf(error)}`);
    }
  }

  private fail(problem: string): void {
    this.problem = problem;
    this.host.log.error(`the bridge: ${problem}`);
    this.show();
  }

  private show(): void {
    const { port, clients } = this.bridge;
    const state = port === undefined ? "stopped" : `port ${port}, ${clients === 1 ? "1 client" : `${clients} clients`}`;
    this.host.report("bridge", this.problem === "" ? state : `${state}; ${this.problem}`, this.problem !== "");
    this.status.set(port === undefined ? "$(debug-disconnect) perigee" : `$(plug) perigee${clients > 0 ? ` ${clients}` : ""}`);
  }

  private async menu(): Promise<void> {
    const running = this.bridge.port !== undefined;
    const chosen = await vscode.window.showQuickPick(
      [
        running ? { label: "$(debug-stop) Stop the bridge", command: "perigee.stop" } : { label: "$(play) Start the bridge", command: "perigee.start" },
        { label: "$(clippy) Copy the MCP configuration", command: "perigee.copyMcpConfig" },
        { label: "$(output) Show the log", command: "perigee.showLog" },
        { label: "$(gear) Settings", command: "workbench.action.openSettings", argument: "@ext:perigee.perigee" },
      ],
      { title: running ? `perigee: port ${this.bridge.port}, ${this.bridge.clients} clients` : "perigee: the bridge is stopped" },
    );
    if (chosen !== undefined) {
      await vscode.commands.executeCommand(chosen.command, ...("argument" in chosen ? [chosen.argument] : []));
    }
  }

  // copyConfig works without the program, because the configuration may be for another machine; it says what is missing.
  private async copyConfig(wanted: unknown): Promise<void> {
    const format = configFormats.find((each) => each.label === wanted) ?? (await pickFormat());
    if (format === undefined) {
      return;
    }
    const setting = vscode.workspace.getConfiguration("perigee").get("binary", "perigee");
    const binary = await findBinary(setting);
    await vscode.env.clipboard.writeText(format.text(binary ?? "perigee"));
    if (binary === undefined) {
      void vscode.window.showWarningMessage(`Copied, but ${missingBinary(setting)}. The bridge of this window works without it.`);
    } else {
      void vscode.window.showInformationMessage(`Copied the MCP configuration for ${format.label}.`);
    }
  }
}

function enabled(): boolean {
  return vscode.workspace.getConfiguration("perigee").get("bridge.enabled", true);
}

async function pickFormat(): Promise<ConfigFormat | undefined> {
  return vscode.window.showQuickPick(configFormats, { title: "MCP configuration for" });
}

// ownDirs are out of reach of clients: perigee's configuration with the announcements, and its data, where they are by default.
function ownDirs(): string[] {
  const { platform, env } = process;
  const home = os.homedir();
  const config = configDir(platform, env, home);
  const local = env["XDG_DATA_HOME"] && path.isAbsolute(env["XDG_DATA_HOME"]) ? env["XDG_DATA_HOME"] : path.join(home, ".local", "share");
  const data = platform === "win32" ? env["LOCALAPPDATA"] : platform === "darwin" ? config : local;
  const own = [config, data].flatMap((dir) => (dir === undefined || dir === "" ? [] : [path.join(dir, "perigee")]));
  return [bridgesDir(platform, env, home), ...own];
}
