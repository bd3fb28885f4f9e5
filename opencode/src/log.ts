import type { PluginInput } from "@opencode-ai/plugin";
import { appendFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

import type { Settings } from "./settings.js";

type Client = Pick<PluginInput["client"], "app" | "tui">;
type Level = "debug" | "info" | "warn" | "error";

const keptFiles = 7;

// A Log writes what the plugin does: warnings and errors always into OpenCode's log, everything into a file per day if debug is set.
// No method fails or waits: OpenCode goes on whatever happens here.
export class Log {
  private directoryReady = false;

  constructor(
    private readonly client: Client,
    private readonly settings: Pick<Settings, "debug" | "debug_tui" | "quiet_mode" | "log_dir">,
    private readonly now: () => Date = () => new Date(),
  ) {}

  info(message: string, extra: Record<string, unknown> = {}): void {
    this.write("info", message, extra);
  }

  warn(message: string, extra: Record<string, unknown> = {}): void {
    this.write("warn", message, extra);
  }

  // detail is the text of an error, which may quote the conversation: it is written with debug 2 only.
  detail(message: string, extra: Record<string, unknown> = {}): void {
    if (this.settings.debug === 2) {
      this.write("debug", message, extra);
    }
  }

  // toast shows a message in the terminal, unless quiet.
  toast(message: string, variant: "info" | "warning"): void {
    if (!this.settings.quiet_mode) {
      this.client.tui.showToast({ body: { title: "perigee", message, variant, duration: 8000 } }).catch(() => {}); // there may be no terminal
    }
  }

  private write(level: Level, message: string, extra: Record<string, unknown>): void {
    if (level === "warn" || level === "error" || (this.settings.debug_tui && this.settings.debug > 0)) {
      this.client.app.log({ body: { service: "perigee", level, message, extra } }).catch(() => {});
    }
    if (this.settings.debug > 0) {
      try {
        this.append(level, message, extra);
      } catch {
        // A full disk or a directory without permission is no reason to disturb OpenCode.
      }
    }
  }

  private append(level: Level, message: string, extra: Record<string, unknown>): void {
    const directory = this.settings.log_dir;
    const time = this.now().toISOString();
    if (!this.directoryReady) {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      const old = readdirSync(directory).filter((name) => /^perigee-[\d-]+\.log$/.test(name)).sort().slice(0, -keptFiles);
      for (const name of old) {
        rmSync(join(directory, name), { force: true });
      }
      this.directoryReady = true;
    }
    const line = JSON.stringify({ time, level, message, ...extra }) + "\n";
    appendFileSync(join(directory, `perigee-${time.slice(0, 10)}.log`), line, { mode: 0o600 });
  }
}
