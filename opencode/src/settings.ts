import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

// Settings of the plugin, by the names that they have in the file.
export interface Settings {
  readonly url: string; // of perigee; empty: not given
  readonly key: string; // a client key; empty: not given
  readonly session_recovery: boolean;
  readonly auto_resume: boolean;
  readonly resume_text: string;
  readonly quiet_mode: boolean; // no toasts
  readonly debug: 0 | 1 | 2; // 1: a log file with what the plugin does; 2: with the texts of errors too
  readonly debug_tui: boolean; // the same in OpenCode's own log
  readonly log_dir: string;
}

export interface Loaded {
  readonly settings: Settings;
  readonly file: string; // where settings are, or would be
  readonly problem: string; // why the file was not read; empty: it was, or there is none
}

type Environment = Readonly<Record<string, string | undefined>>;

// load reads perigee.json in OpenCode's configuration directory and puts the environment over it. Without that file it reads
// antigravity.json, the file of opencode-antigravity-auth, whose settings for recovery and logs have the same names. Its variables
// count, too, where perigee's own are not set.
export function load(env: Environment, home = homedir()): Loaded {
  const directory = env["OPENCODE_CONFIG_DIR"] || join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "opencode");
  const file = join(directory, "perigee.json");
  let given: Record<string, unknown> = {};
  let problem = "";
  try {
    given = read(file) ?? read(join(directory, "antigravity.json")) ?? {};
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error);
  }
  const variable = (name: string) => env["OPENCODE_PERIGEE_" + name] ?? env["OPENCODE_ANTIGRAVITY_" + name];
  const settings: Settings = {
    url: env["PERIGEE_URL"] || text(given["url"], ""),
    key: env["PERIGEE_KEY"] || text(given["key"], ""),
    session_recovery: flag(given["session_recovery"], true),
    auto_resume: flag(given["auto_resume"], true),
    resume_text: text(given["resume_text"], "continue"),
    quiet_mode: on(variable("QUIET")) ?? flag(given["quiet_mode"], false),
    debug: variable("DEBUG") === "2" ? 2 : (on(variable("DEBUG")) ?? flag(given["debug"], false)) ? 1 : 0,
    debug_tui: on(variable("DEBUG_TUI")) ?? flag(given["debug_tui"], false),
    log_dir: text(given["log_dir"], join(directory, "perigee-logs")),
  };
  return { settings, file, problem };
}

// read returns undefined if there is no such file.
function read(file: string): Record<string, unknown> | undefined {
  let content: string;
  try {
    content = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error(`${file}: want an object`);
  }
  return value as Record<string, unknown>;
}

function text(value: unknown, otherwise: string): string {
  return typeof value === "string" && value.trim() !== "" ? value : otherwise;
}

function flag(value: unknown, otherwise: boolean): boolean {
  return typeof value === "boolean" ? value : otherwise;
}

// on reads a switch in the environment; undefined: it is not set.
function on(value: string | undefined): boolean | undefined {
  return value === undefined || value === "" ? undefined : !/^(0|false|off|no)$/i.test(value);
}
