import * as vscode from "vscode";

interface Line {
  readonly text: string;
  readonly problem: boolean;
}

// A Status is the item of the extension in the status bar. Its tooltip has a line for each part; a click opens the menu.
export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("perigee.status", vscode.StatusBarAlignment.Right, 50);
  private readonly lines = new Map<string, Line>();
  private state = "$(debug-disconnect) perigee";

  constructor() {
    this.item.name = "perigee";
    this.item.command = "perigee.menu";
    this.show();
    this.item.show();
  }

  // set changes what the item itself says.
  set(state: string): void {
    this.state = state;
    this.show();
  }

  report(part: string, text: string, problem = false): void {
    this.lines.set(part, { text, problem });
    this.show();
  }

  dispose(): void {
    this.item.dispose();
  }

  private show(): void {
    const lines = [...this.lines].map(([part, line]) => `${part}: ${line.text}`);
    const problem = [...this.lines.values()].some((line) => line.problem);
    this.item.text = problem ? `${this.state} $(warning)` : this.state;
    this.item.tooltip = ["perigee", ...lines].join("\n");
    this.item.accessibilityInformation = { label: ["perigee", ...lines].join(", ") };
  }
}
