import * as fs from "node:fs/promises";
import * as path from "node:path";
import { fileURLToPath } from "node:url";

import { badParams, codes, RpcError } from "../bridge/errors.js";

// A Target is a path in the workspace. Its real path has no links, as far as it exists.
export interface Target {
  readonly real: string;
  readonly exists: boolean;
}

// A Workspace confines paths to the folders of the window. Paths are relative to the first folder, absolute, or file: URIs.
export class Workspace {
  constructor(
    private readonly folders: () => readonly string[],
    // closed are directories that are out of reach even inside a folder.
    private readonly closed: () => readonly string[] = () => [],
  ) {}

  // roots returns the folders without links. A folder that does not exist has none.
  async roots(): Promise<string[]> {
    const real = await Promise.all(this.folders().map((folder) => fs.realpath(folder).catch(() => undefined)));
    return real.filter((root) => root !== undefined);
  }

  // resolve returns where a path leads. Its last part does not have to exist, and with missing neither do its directories.
  async resolve(input: string, missing = false): Promise<Target> {
    const roots = await this.roots();
    const first = roots[0];
    if (first === undefined) {
      throw new RpcError(codes.outside, "the window has no folder open", { class: "forbidden", workspace: [] });
    }
    const wanted = path.resolve(first, plainPath(input));
    const named = [...this.folders(), ...roots];
    if (!named.some((root) => isWithin(wanted, path.resolve(root)))) {
      throw this.outside(input);
    }
    const target = await follow(wanted, missing);
    await this.check(target.real, input);
    return target;
  }

  // check fails if a real path is not in a folder, or is out of reach.
  async check(real: string, input: string): Promise<void> {
    const roots = await this.roots();
    if (!roots.some((root) => isWithin(real, root))) {
      throw this.outside(input);
    }
    if ((await this.closedDirs()).some((dir) => isWithin(real, dir))) {
      throw badParams(`${input} is out of reach: it belongs to perigee`, "forbidden");
    }
  }

  // closedDirs returns the directories that are out of reach, without links.
  closedDirs(): Promise<string[]> {
    return Promise.all(this.closed().map((dir) => fs.realpath(dir).catch(() => dir)));
  }

  // shown is the path of a result: relative to the folder, or absolute if there are several folders.
  async shown(real: string): Promise<string> {
    const roots = await this.roots();
    const root = roots[0];
    if (root === undefined || roots.length > 1 || !isWithin(real, root)) {
      return real;
    }
    return path.relative(root, real).split(path.sep).join("/") || ".";
  }

  private outside(input: string): RpcError {
    const workspace = [...this.folders()];
    return new RpcError(codes.outside, `${input} is outside the workspace (${workspace.join(", ")})`, { class: "forbidden", workspace });
  }
}

function plainPath(input: string): string {
  if (input.includes("\0")) {
    throw badParams("path has a NUL character");
  }
  const plain = /^file:/i.test(input) ? pathOf(input) : input;
  if (process.platform === "win32" && hasReservedName(plain)) {
    throw badParams(`${input} has a name that Windows reserves`, "forbidden");
  }
  return plain;
}

function pathOf(uri: string): string {
  try {
    return fileURLToPath(uri);
  } catch {
    throw badParams(`${uri} is not a file URI of this machine`);
  }
}

// hasReservedName finds names that are no files on Windows: devices such as NUL and CON.txt, streams such as a:b, and names that end
// in a dot or a space.
export function hasReservedName(input: string): boolean {
  const parts = input.replace(/^[A-Za-z]:(?=[/\\]|$)/, "").split(/[/\\]/);
  return parts.some((part) => part !== "." && part !== ".." && /[:<>"|?*]|[. ]$|^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i.test(part));
}

// isWithin reports whether a path is a directory or below it.
export function isWithin(target: string, dir: string): boolean {
  const relative = path.relative(dir, target);
  return relative === "" || (relative !== ".." && !relative.startsWith(".." + path.sep) && !path.isAbsolute(relative));
}

// follow resolves the links of a path as far as it exists.
async function follow(wanted: string, missing: boolean): Promise<Target> {
  const rest: string[] = [];
  for (let at = wanted; ; at = path.dirname(at)) {
    try {
      return { real: path.join(await fs.realpath(at), ...rest), exists: rest.length === 0 };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOENT") {
        throw systemError(error, wanted);
      }
      if (await isLink(at)) {
        throw badParams(`${wanted} goes through a link that leads nowhere`, "not_found");
      }
      if (at === path.dirname(at) || (rest.length > 0 && !missing)) {
        throw badParams(`the directory of ${wanted} does not exist`, "not_found");
      }
      rest.unshift(path.basename(at));
    }
  }
}

async function isLink(at: string): Promise<boolean> {
  const info = await fs.lstat(at).catch(() => undefined);
  return info?.isSymbolicLink() === true;
}

const reasons: Record<string, string> = {
  ENOENT: "does not exist",
  ENOTDIR: "goes through a file that is no directory",
  EISDIR: "is a directory",
  ELOOP: "is a link, or goes through too many links",
  EACCES: "may not be accessed",
  EPERM: "may not be accessed",
  ENAMETOOLONG: "is too long",
  ENOSPC: "cannot be written: the disk is full",
  EDQUOT: "cannot be written: the quota of the disk is used up",
  EROFS: "is on a read-only file system",
};

// systemError turns an error of the system about a path into one that says what to do. Other errors are returned as they are.
export function systemError(error: unknown, input: string): unknown {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  const reason = code === undefined ? undefined : reasons[code];
  if (error instanceof RpcError || reason === undefined) {
    return error;
  }
  const errorClass = code === "ENOENT" ? "not_found" : code === "EACCES" || code === "EPERM" ? "forbidden" : "invalid";
  return badParams(`${input} ${reason}`, errorClass);
}
