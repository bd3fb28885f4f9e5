import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import * as path from "node:path";

import { badParams } from "../bridge/errors.js";
import type { Json } from "../json.js";
import { Anchor } from "./anchor.js";
import { decode, encodingOf } from "./text.js";
import { systemError, type Workspace } from "./workspace.js";

export const maxLines = 2_000;
export const maxBytes = 256 << 10;
export const maxWhole = 64 << 20; // larger files have no sha256 and are read up to the end of the answer

// readFile returns lines of a file, or its first bytes in base64 if it is no text.
export async function readFile(workspace: Workspace, input: string, offset = 1, limit = maxLines): Promise<Json> {
  const { real, exists } = await workspace.resolve(input);
  if (!exists) {
    throw badParams(`${input} does not exist`, "not_found");
  }
  try {
    return { path: await workspace.shown(real), ...(await withFile(workspace, real, input, (file) => read(file, input, offset, limit))) };
  } catch (error) {
    throw systemError(error, input);
  }
}

// withFile opens a file whose directory is in the workspace when it is open.
export async function withFile<T>(workspace: Workspace, real: string, input: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const anchor = await Anchor.open(path.dirname(real), (dir) => workspace.check(path.join(dir, path.basename(real)), input));
  try {
    const file = await anchor.read(path.basename(real));
    try {
      return await use(file);
    } finally {
      await file.close();
    }
  } finally {
    await anchor.close();
  }
}

async function read(file: FileHandle, input: string, offset: number, limit: number): Promise<Json> {
  const info = await file.stat();
  if (!info.isFile()) {
    throw badParams(`${input} is ${info.isDirectory() ? "a directory: list it" : "no regular file"}`);
  }
  const window = new Window(offset, Math.min(limit, maxLines));
  const hash = info.size <= maxWhole ? createHash("sha256") : undefined;
  const head = Buffer.alloc(Math.min(8 << 10, maxBytes));
  const { bytesRead } = await file.read(head, 0, head.length, 0);
  const encoding = encodingOf(head.subarray(0, bytesRead));
  if (hash !== undefined && (encoding === "utf-16le" || encoding === "utf-16be")) {
    const data = await file.readFile();
    const text = decode(data, encoding);
    if (text !== undefined) {
      window.add(Buffer.from(text));
      return { ...window.result(true), sha256: hash.update(data).digest("hex") };
    }
  }
  const first = Buffer.alloc(maxBytes);
  let [position, kept] = [0, 0];
  const chunk = Buffer.alloc(64 << 10);
  for (;;) {
    const { bytesRead: count } = await file.read(chunk, 0, chunk.length, position);
    const data = chunk.subarray(0, count);
    const start = position === 0 && encoding === "utf-8-bom" ? 3 : 0;
    kept += data.copy(first, kept, 0, maxBytes - kept);
    hash?.update(data);
    window.add(data.subarray(start));
    position += count;
    if (count === 0 || (hash === undefined && window.full && kept === maxBytes)) {
      const sha256 = hash === undefined ? {} : { sha256: hash.digest("hex") };
      const text = window.result(count === 0);
      if (text !== undefined && !head.subarray(0, bytesRead).includes(0)) {
        return { ...text, ...sha256 };
      }
      const truncated = position > kept || count > 0;
      return { content: first.subarray(0, kept).toString("base64"), encoding: "base64", lines: 0, truncated, ...sha256 };
    }
  }
}

// A Window collects lines from an offset on.
class Window {
  private line = 1; // the one that the next byte belongs to
  private atStart = true; // of a line
  private readonly parts: Buffer[] = [];
  private size = 0;
  private more = false; // bytes follow that were not collected

  constructor(
    private readonly offset: number,
    private readonly limit: number,
  ) {}

  get full(): boolean {
    return this.more;
  }

  add(data: Buffer): void {
    for (let at = 0; at < data.length; ) {
      const end = data.indexOf(10, at);
      const next = end < 0 ? data.length : end + 1;
      this.collect(data.subarray(at, next));
      this.atStart = end >= 0;
      this.line += end >= 0 ? 1 : 0;
      at = next;
    }
  }

  private collect(part: Buffer): void {
    if (this.line < this.offset) {
      return;
    }
    const room = this.line >= this.offset + this.limit || this.more ? 0 : maxBytes - this.size;
    if (part.length > room) {
      this.more = true;
    }
    if (room > 0) {
      const kept = Buffer.from(part.subarray(0, room));
      this.parts.push(kept);
      this.size += kept.length;
    }
  }

  // result is what was collected; undefined: it is no text. ended says that the end of the file was seen.
  result(ended: boolean): Json | undefined {
    let data = Buffer.concat(this.parts);
    if (this.more) {
      data = cut(data);
    }
    const content = decode(data, "utf-8");
    if (content === undefined) {
      return undefined;
    }
    const breaks = content.split("\n").length - 1;
    const lines = breaks + (content === "" || content.endsWith("\n") ? 0 : 1);
    const total = this.line - (this.atStart ? 1 : 0);
    return { content, lines, truncated: this.more, ...(ended ? { total_lines: total } : {}) };
  }
}

// cut ends data after a line, or after a character if it is one long line.
function cut(data: Buffer): Buffer<ArrayBuffer> {
  const end = data.lastIndexOf(10) + 1;
  if (end > 0) {
    return Buffer.from(data.subarray(0, end));
  }
  let length = data.length;
  for (let back = 1; back <= Math.min(3, length); back++) {
    const byte = data[length - back] ?? 0;
    if (byte >= 0xc0) {
      const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      length -= needed > back ? back : 0;
      break;
    }
    if (byte < 0x80) {
      break;
    }
  }
  return Buffer.from(data.subarray(0, length));
}
