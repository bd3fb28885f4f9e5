import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";

// findBinary is the absolute path of a program: of a name on PATH, of an absolute path, or of one that begins with ~. A relative path with
// folders is not accepted: it would mean a file of the workspace.
export async function findBinary(setting: string, env: NodeJS.ProcessEnv = process.env): Promise<string | undefined> {
  const name = setting.trim() || "perigee";
  if (/^~[\\/]/.test(name)) {
    return executable(join(homedir(), name.slice(2)));
  }
  if (isAbsolute(name)) {
    return executable(name);
  }
  if (/[\\/]/.test(name)) {
    return undefined;
  }
  const endings = process.platform === "win32" ? ["", ".exe"] : [""];
  for (const folder of (env["PATH"] ?? env["Path"] ?? "").split(delimiter)) {
    if (!isAbsolute(folder)) {
      continue;
    }
    for (const ending of endings) {
      const found = await executable(join(folder, name + ending));
      if (found) {
        return found;
      }
    }
  }
  return undefined;
}

async function executable(path: string): Promise<string | undefined> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}

// missingBinary is what users are told when the program is not there.
export function missingBinary(setting: string): string {
  return `the program ${JSON.stringify(setting.trim() || "perigee")} was not found; install perigee, or set perigee.binary to its path`;
}
