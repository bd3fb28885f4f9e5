import { createHash, randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import * as fs from "node:fs/promises";
import * as path from "node:path";

import { badParams } from "../bridge/errors.js";
import type { Json } from "../json.js";
import { Anchor } from "./anchor.js";
import { maxWhole } from "./read.js";
import { decode, encode, encodingOf, withLineEnds } from "./text.js";
import { isWithin, systemError, type Target, type Workspace } from "./workspace.js";

export interface WriteOptions {
  readonly content: string;
  readonly encoding: "utf-8" | "base64";
  readonly expected?: string | undefined; // the sha256 of the file as it is; "": it must not exist
  readonly createDirs: boolean;
}

// writeFile replaces a file in one step, or creates it. The mode, the byte order mark and the line ends of a file stay. A link in the
// workspace stays, and its target is replaced.
export async function writeFile(workspace: Workspace, input: string, options: WriteOptions): Promise<Json> {
  const target = await workspace.resolve(input, options.createDirs);
  const name = path.basename(target.real);
  let anchor: Anchor | undefined;
  try {
    anchor = await openDir(workspace, target, input);
    const before = await current(anchor, name, input);
    expect(before, options.expected, input);
    const data = contentFor(options, before?.data);
    await replace(anchor, name, data, before?.info.mode);
    const shown = await workspace.shown(path.join(anchor.real, name));
    return { path: shown, sha256: digest(data), bytes: data.length, created: before === undefined };
  } catch (error) {
    throw systemError(error, input);
  } finally {
    await anchor?.close();
  }
}

// openDir opens the directory of a target, and creates what is missing of it.
async function openDir(workspace: Workspace, target: Target, input: string): Promise<Anchor> {
  const check = (dir: string) => workspace.check(dir, input);
  const dir = path.dirname(target.real);
  if (target.exists) {
    const root = (await workspace.roots()).find((each) => each === target.real);
    if (root !== undefined) {
      throw badParams(`${input} is a directory`);
    }
    return Anchor.open(dir, check);
  }
  let base = dir;
  while (base !== path.dirname(base) && (await fs.stat(base).catch(() => undefined)) === undefined) {
    base = path.dirname(base);
  }
  let anchor = await Anchor.open(base, check);
  for (const part of isWithin(dir, base) ? path.relative(base, dir).split(path.sep).filter(Boolean) : []) {
    try {
      const next = await anchor.below(part, check);
      await anchor.close();
      anchor = next;
    } catch (error) {
      await anchor.close();
      throw error;
    }
  }
  return anchor;
}

interface Current {
  readonly info: Stats;
  readonly data: Buffer | undefined; // undefined: the file is too large to compare
}

// current is the file as it is; undefined: there is none.
async function current(anchor: Anchor, name: string, input: string): Promise<Current | undefined> {
  let file: fs.FileHandle;
  try {
    file = await anchor.read(name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
  try {
    const info = await file.stat();
    if (!info.isFile()) {
      throw badParams(`${input} is ${info.isDirectory() ? "a directory" : "no regular file"}`);
    }
    await fs.access(anchor.at(name), constants.W_OK);
    return { info, data: info.size <= maxWhole ? await file.readFile() : undefined };
  } finally {
    await file.close();
  }
}

function expect(before: Current | undefined, expected: string | undefined, input: string): void {
  if (expected === undefined) {
    return;
  }
  if (before === undefined) {
    if (expected !== "") {
      throw badParams(`${input} does not exist, so it has not the expected content; nothing was written`, "not_found");
    }
    return;
  }
  const sha256 = before.data === undefined ? undefined : digest(before.data);
  if (expected.toLowerCase() !== sha256) {
    const present = sha256 === undefined ? "it is too large to compare" : `its sha256 is ${sha256}`;
    throw badParams(`${input} has other content than expected: ${present}; nothing was written. Read it again.`, "invalid", { sha256 });
  }
}

function contentFor(options: WriteOptions, before: Buffer | undefined): Buffer {
  if (options.encoding === "base64") {
    const data = Buffer.from(options.content, "base64");
    if (data.toString("base64").replace(/=+$/, "") !== options.content.replace(/\s|=+$/g, "")) {
      throw badParams("content is not base64");
    }
    return data;
  }
  if (before === undefined) {
    return Buffer.from(options.content, "utf8");
  }
  const encoding = encodingOf(before);
  const text = decode(before, encoding);
  return text === undefined ? Buffer.from(options.content, "utf8") : encode(withLineEnds(options.content, text), encoding);
}

// replace writes a file beside the old one and renames it. A failure leaves the old one.
async function replace(anchor: Anchor, name: string, data: Buffer, mode: number | undefined): Promise<void> {
  const temporary = `.perigee-${randomBytes(6).toString("hex")}.tmp`;
  const file = await anchor.create(temporary, 0o644);
  try {
    try {
      if (mode !== undefined) {
        await file.chmod(mode & 0o777);
      }
      await file.writeFile(data);
    } finally {
      await file.close();
    }
    await fs.rename(anchor.at(temporary), anchor.at(name));
  } catch (error) {
    await fs.rm(anchor.at(temporary), { force: true });
    throw error;
  }
}

function digest(data: Buffer): string {
  return createHash("sha256").update(data).digest("hex");
}
