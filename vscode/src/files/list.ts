import type { Dirent } from "node:fs";
import * as fs from "node:fs/promises";
import * as path from "node:path";

import { badParams } from "../bridge/errors.js";
import type { Json } from "../json.js";
import { compileGlob } from "./glob.js";
import { Ignore } from "./ignore.js";
import { isWithin, systemError, type Workspace } from "./workspace.js";

export const pageSize = 1_000;
const maxWalked = 500_000;

export interface ListOptions {
  readonly glob?: string | undefined;
  readonly recursive: boolean;
  readonly cursor?: string | undefined;
  readonly includeIgnored: boolean;
}

interface Found {
  readonly path: string; // real
  readonly relative: string; // to the listed directory, with / between parts
  readonly type: "file" | "directory" | "symlink" | "other";
}

// listFiles returns a page of the entries of a directory, in the order of their paths. Links are listed and not followed.
export async function listFiles(workspace: Workspace, input: string, options: ListOptions): Promise<Json> {
  const { real, exists } = await workspace.resolve(input);
  if (!exists) {
    throw badParams(`${input} does not exist`, "not_found");
  }
  const after = options.cursor === undefined ? undefined : parseCursor(options.cursor);
  const matches = compile(options.glob);
  let found: Found[];
  try {
    found = await new Walk(workspace, real, options).run();
  } catch (error) {
    throw systemError(error, input);
  }
  const wanted = found.filter((entry) => matches(entry.relative)).sort((a, b) => Buffer.compare(Buffer.from(a.relative), Buffer.from(b.relative)));
  const rest = after === undefined ? wanted : wanted.filter((entry) => Buffer.compare(Buffer.from(entry.relative), after) > 0);
  const page = rest.slice(0, pageSize);
  const last = page.at(-1);
  return {
    entries: (await Promise.all(page.map((entry) => describe(workspace, entry)))).filter((entry) => entry !== undefined),
    ...(rest.length > pageSize && last !== undefined ? { next_cursor: Buffer.from(last.relative).toString("base64url") } : {}),
  };
}

function compile(glob: string | undefined): (path: string) => boolean {
  try {
    return glob === undefined || glob === "" ? () => true : compileGlob(glob);
  } catch {
    throw badParams("glob is not a valid pattern");
  }
}

function parseCursor(cursor: string): Buffer {
  if (!/^[A-Za-z0-9_-]+$/.test(cursor)) {
    throw badParams("cursor is not one of an earlier page");
  }
  return Buffer.from(cursor, "base64url");
}

async function describe(workspace: Workspace, entry: Found): Promise<Json | undefined> {
  const info = await fs.lstat(entry.path).catch(() => undefined);
  if (info === undefined) {
    return undefined; // removed meanwhile
  }
  return { path: await workspace.shown(entry.path), type: entry.type, size: info.size, modified: info.mtime.toISOString() };
}

// A Walk collects the entries of a directory.
class Walk {
  private readonly found: Found[] = [];
  private closed: readonly string[] = [];

  constructor(
    private readonly workspace: Workspace,
    private readonly top: string,
    private readonly options: ListOptions,
  ) {}

  async run(): Promise<Found[]> {
    this.closed = await this.workspace.closedDirs();
    let ignore: Ignore | undefined;
    const root = (await this.workspace.roots()).find((each) => isWithin(this.top, each));
    if (!this.options.includeIgnored && root !== undefined) {
      ignore = await Ignore.of(root);
      let relative = "";
      for (const part of path.relative(root, this.top).split(path.sep).filter(Boolean)) {
        relative += part + "/";
        ignore = await ignore.enter(path.join(root, relative), relative);
      }
      await this.visit(this.top, "", ignore, relative);
    } else {
      await this.visit(this.top, "", undefined, "");
    }
    return this.found;
  }

  // visit reads one directory. shown is relative to the listed directory, below to the root; both are "" or end in /.
  private async visit(dir: string, shown: string, ignore: Ignore | undefined, below: string): Promise<void> {
    const entries = await fs.readdir(dir, { withFileTypes: true }).catch((error: unknown) => {
      if (shown === "") {
        throw error;
      }
      return []; // a directory that may not be read, or was removed meanwhile, is listed without its content
    });
    for (const entry of entries) {
      const real = path.join(dir, entry.name);
      if (ignore?.has(below + entry.name, entry.isDirectory()) === true || this.closed.includes(real)) {
        continue;
      }
      if (this.found.length >= maxWalked) {
        throw badParams(`there are more than ${maxWalked} entries: list a directory below`);
      }
      this.found.push({ path: real, relative: shown + entry.name, type: typeOf(entry) });
      if (this.options.recursive && entry.isDirectory()) {
        const inner = below + entry.name + "/";
        await this.enter(real, shown + entry.name + "/", await ignore?.enter(real, inner), inner);
      }
    }
  }

  // enter visits a directory, unless a link has taken its place.
  private async enter(dir: string, shown: string, ignore: Ignore | undefined, below: string): Promise<void> {
    if ((await fs.realpath(dir).catch(() => undefined)) === dir) {
      await this.visit(dir, shown, ignore, below);
    }
  }
}

function typeOf(entry: Dirent): Found["type"] {
  if (entry.isSymbolicLink()) {
    return "symlink";
  }
  return entry.isFile() ? "file" : entry.isDirectory() ? "directory" : "other";
}
