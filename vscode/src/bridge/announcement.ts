import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";

// What perigee learns about a window from its file.
export interface Announced {
  readonly port: number;
  readonly token: string;
  readonly workspace: readonly string[];
  readonly ide: { readonly name: string; readonly version: string };
}

// configDir is the user's directory for configuration, by the rule that perigee uses; undefined if there is no home directory.
export function configDir(system: NodeJS.Platform, env: NodeJS.ProcessEnv, home: string): string | undefined {
  const below = (...names: string[]) => (home === "" ? undefined : path.join(home, ...names));
  switch (system) {
    case "win32":
      return env["APPDATA"] || below("AppData", "Roaming");
    case "darwin":
      return below("Library", "Application Support");
    default: {
      const xdg = env["XDG_CONFIG_HOME"] ?? "";
      return path.isAbsolute(xdg) ? xdg : below(".config");
    }
  }
}

// bridgesDir is the directory of announcements: $PERIGEE_BRIDGES, or perigee/bridges in the user's directory for configuration.
export function bridgesDir(system: NodeJS.Platform, env: NodeJS.ProcessEnv, home: string): string {
  if (env["PERIGEE_BRIDGES"]) {
    return env["PERIGEE_BRIDGES"];
  }
  const config = configDir(system, env, home);
  if (config === undefined) {
    throw new Error("the home directory is unknown: set PERIGEE_BRIDGES to the directory that perigee uses");
  }
  return path.join(config, "perigee", "bridges");
}

// An Announcement is the file <pid>.json, which only the user can read. All methods are synchronous, so that the file is gone when the
// editor ends the extension host.
export class Announcement {
  private written: fs.Stats | undefined;

  constructor(
    readonly dir = bridgesDir(process.platform, process.env, os.homedir()),
    private readonly pid = process.pid,
  ) {}

  get path(): string {
    return path.join(this.dir, `${this.pid}.json`);
  }

  // write creates or replaces the file. A reader sees the whole old one or the whole new one.
  write(window: Announced): void {
    this.secureDir();
    const text = JSON.stringify({ version: 1, ...window, pid: this.pid }) + "\n";
    const temporary = path.join(this.dir, `.${this.pid}-${randomBytes(6).toString("hex")}.tmp`);
    try {
      fs.writeFileSync(temporary, text, { mode: 0o600, flag: "wx" });
      fs.chmodSync(temporary, 0o600); // whatever the umask is
      fs.renameSync(temporary, this.path);
    } catch (error) {
      fs.rmSync(temporary, { force: true });
      throw error;
    }
    this.written = fs.lstatSync(this.path);
  }

  // remove removes the file, if it is still the one that was written.
  remove(): void {
    const { written } = this;
    if (written === undefined) {
      return;
    }
    this.written = undefined;
    const now = fs.lstatSync(this.path, { throwIfNoEntry: false });
    if (now?.ino === written.ino && now.dev === written.dev) {
      fs.rmSync(this.path, { force: true });
    }
  }

  private secureDir(): void {
    fs.mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    if (process.platform === "win32") {
      return; // permissions are those of the profile
    }
    const info = fs.statSync(this.dir);
    if (info.uid !== process.getuid?.()) {
      throw new Error(`${this.dir} belongs to another user: remove it, or set PERIGEE_BRIDGES`);
    }
    if ((info.mode & 0o077) !== 0) {
      fs.chmodSync(this.dir, 0o700);
    }
  }
}
