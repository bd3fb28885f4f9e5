import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";

import { codes, RpcError } from "../src/bridge/errors.js";
import { Params } from "../src/bridge/params.js";
import { fileMethods } from "../src/files/methods.js";
import { hasReservedName, Workspace } from "../src/files/workspace.js";
import type { Json } from "../src/json.js";
import { temporaryDir } from "./rig.js";

interface Rig {
  readonly dir: string; // has everything
  readonly root: string; // the folder of the window
  call(method: string, params: Json): Promise<Json>;
  refused(method: string, params: Json): Promise<RpcError>;
}

function rig(t: TestContext, more: readonly string[] = []): Rig {
  const dir = temporaryDir(t);
  const root = path.join(dir, "root");
  fs.mkdirSync(root);
  fs.mkdirSync(path.join(dir, "outside"));
  fs.writeFileSync(path.join(dir, "outside", "secret"), "secret");
  const workspace = new Workspace(() => [root, ...more], () => [path.join(root, "own")]);
  const methods = new Map(fileMethods(workspace));
  const caller = { signal: new AbortController().signal, notify: () => undefined };
  const call = async (name: string, params: Json) => {
    const method = methods.get(name);
    assert.ok(method);
    return method(new Params(params), caller);
  };
  const refused = async (name: string, params: Json) => {
    try {
      assert.fail(`${name} ${JSON.stringify(params)} answered ${JSON.stringify(await call(name, params))}`);
    } catch (error) {
      assert.ok(error instanceof RpcError, String(error));
      return error;
    }
  };
  return { dir, root, call, refused };
}

const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest("hex");
const paths = (result: Json) => (result["entries"] as { path: string }[]).map((entry) => entry.path);

test("read returns lines, hash and count", async (t) => {
  const { root, call } = rig(t);
  const text = "one\ntwo\r\nthree";
  fs.writeFileSync(path.join(root, "a.txt"), text);
  const whole = { path: "a.txt", sha256: sha256(text), truncated: false, total_lines: 3 };
  assert.deepEqual(await call("fs/read", { path: "a.txt" }), { ...whole, content: text, lines: 3 });
  assert.deepEqual(await call("fs/read", { path: path.join(root, "a.txt"), offset: 2, limit: 1 }), { ...whole, content: "two\r\n", lines: 1, truncated: true });
  assert.deepEqual(await call("fs/read", { path: pathToFileURL(path.join(root, "a.txt")).href, offset: 3 }), { ...whole, content: "three", lines: 1 });
  assert.deepEqual(await call("fs/read", { path: "./x/../a.txt", offset: 9 }), { ...whole, content: "", lines: 0 });
  fs.writeFileSync(path.join(root, "empty"), "");
  assert.deepEqual(await call("fs/read", { path: "empty" }), { path: "empty", content: "", sha256: sha256(""), lines: 0, total_lines: 0, truncated: false });
});

test("read cuts at 2,000 lines, at 256 KiB, and within a character of a long line", async (t) => {
  const { root, call } = rig(t);
  fs.writeFileSync(path.join(root, "lines"), "x\n".repeat(2500));
  const lines = await call("fs/read", { path: "lines", limit: 9999 });
  assert.deepEqual([lines["lines"], lines["total_lines"], lines["truncated"]], [2000, 2500, true]);
  fs.writeFileSync(path.join(root, "wide"), ("y".repeat(99_999) + "\n").repeat(4));
  const wide = await call("fs/read", { path: "wide" });
  assert.deepEqual([wide["lines"], String(wide["content"]).length, wide["truncated"]], [2, 200_000, true]);
  fs.writeFileSync(path.join(root, "long"), "a" + "€".repeat(200_000));
  const long = await call("fs/read", { path: "long" });
  assert.equal(long["truncated"], true);
  assert.match(String(long["content"]), /^a€{87381}$/);
});

test("read returns bytes that are no text in base64, and write takes them back", async (t) => {
  const { root, call, refused } = rig(t);
  const data = Buffer.from([0, 1, 2, 0xff, 10, 13]);
  fs.writeFileSync(path.join(root, "binary"), data);
  const read = await call("fs/read", { path: "binary" });
  assert.deepEqual(read, { path: "binary", content: data.toString("base64"), encoding: "base64", sha256: sha256(data), lines: 0, truncated: false });
  await call("fs/write", { path: "copy", content: read["content"], encoding: "base64" });
  assert.deepEqual(fs.readFileSync(path.join(root, "copy")), data);
  assert.equal((await refused("fs/write", { path: "copy", content: "@@@", encoding: "base64" })).code, codes.badParams);
  assert.equal((await refused("fs/write", { path: "copy", content: "", encoding: "hex" })).code, codes.badParams);
});

test("encodings, line ends and modes survive a write", async (t) => {
  const { root, call } = rig(t);
  const file = path.join(root, "f");
  const cases: [Buffer, string, Buffer][] = [
    [Buffer.from("a\r\nb\r\n"), "c\nd\n", Buffer.from("c\r\nd\r\n")],
    [Buffer.from("a\r\nb\n"), "c\nd\n", Buffer.from("c\nd\n")],
    [Buffer.from("a\r\n"), "c\r\nd\n", Buffer.from("c\r\nd\n")],
    [Buffer.from("\ufeffa\n"), "c\n", Buffer.from("\ufeffc\n")],
    [Buffer.from("\ufeffä\r\n", "utf16le"), "ö\n", Buffer.from("\ufeffö\r\n", "utf16le")],
    [Buffer.from("\ufeffä", "utf16le").swap16(), "ö", Buffer.from("\ufeffö", "utf16le").swap16()],
  ];
  for (const [before, content, after] of cases) {
    fs.writeFileSync(file, before, { mode: 0o640 });
    const shown = await call("fs/read", { path: "f" });
    assert.equal(shown["encoding"], undefined);
    assert.ok(!String(shown["content"]).includes("\ufeff"));
    const result = await call("fs/write", { path: "f", content, expected_sha256: sha256(before) });
    assert.deepEqual(fs.readFileSync(file), after);
    assert.deepEqual(result, { path: "f", sha256: sha256(after), bytes: after.length, created: false });
  }
  fs.chmodSync(file, 0o751);
  await call("fs/write", { path: "f", content: "x" });
  assert.equal(fs.statSync(file).mode & 0o777, 0o751);
  assert.deepEqual(fs.readdirSync(root), ["f"]);
});

test("expected_sha256 guards a write", async (t) => {
  const { root, call, refused } = rig(t);
  assert.equal((await call("fs/write", { path: "n", content: "1", expected_sha256: "" }))["created"], true);
  assert.equal(fs.statSync(path.join(root, "n")).mode & 0o777, 0o644 & ~process.umask());
  const exists = await refused("fs/write", { path: "n", content: "2", expected_sha256: "" });
  assert.equal(exists.data?.["sha256"], sha256("1"));
  const stale = await refused("fs/write", { path: "n", content: "2", expected_sha256: sha256("0") });
  assert.match(stale.message, new RegExp(sha256("1")));
  assert.equal((await refused("fs/write", { path: "gone", content: "2", expected_sha256: sha256("1") })).data?.["class"], "not_found");
  assert.equal((await refused("fs/write", { path: "n", content: "2", expected_sha256: "abc" })).code, codes.badParams);
  assert.equal(fs.readFileSync(path.join(root, "n"), "utf8"), "1");
});

test("directories are created only if asked for", async (t) => {
  const { root, call, refused } = rig(t);
  assert.equal((await refused("fs/write", { path: "a/b/c", content: "x" })).data?.["class"], "not_found");
  assert.deepEqual(fs.readdirSync(root), []);
  assert.equal((await call("fs/write", { path: "a/b/c", content: "x", create_dirs: true }))["path"], "a/b/c");
  assert.equal(fs.readFileSync(path.join(root, "a", "b", "c"), "utf8"), "x");
  assert.equal((await refused("fs/write", { path: "a/b/c/d/e", content: "x", create_dirs: true })).code, codes.badParams);
  assert.equal((await refused("fs/write", { path: "a/b", content: "x" })).code, codes.badParams);
  assert.equal((await refused("fs/write", { path: ".", content: "x" })).code, codes.badParams);
});

test("nothing leads out of the workspace", async (t) => {
  const { dir, root, refused } = rig(t);
  const outside = path.join(dir, "outside");
  fs.symlinkSync(outside, path.join(root, "link"));
  fs.symlinkSync(path.join(outside, "secret"), path.join(root, "file-link"));
  fs.symlinkSync("../outside/new", path.join(root, "dangling"));
  fs.symlinkSync("loop", path.join(root, "loop"));
  fs.mkdirSync(path.join(dir, "root-beside"));
  fs.writeFileSync(path.join(dir, "root-beside", "f"), "");
  const away = [
    "../outside/secret", "link/secret", "file-link", "link", "link/..", path.join(outside, "secret"), "/etc/passwd", "x/../../outside/secret",
    pathToFileURL(path.join(outside, "secret")).href, "../root-beside/f", "file:///etc/passwd", "..",
  ];
  for (const name of away) {
    for (const [method, params] of [["fs/read", {}], ["fs/write", { content: "x" }], ["fs/write", { content: "x", create_dirs: true }], ["fs/list", {}]] as const) {
      const error = await refused(method, { path: name, ...params });
      if (name !== "link/..") { // which is the folder itself: a directory
        assert.equal(error.code, codes.outside, `${method} ${name}: ${error.message}`);
        assert.ok(error.message.includes(root), error.message);
      }
      if (name === "link/..") {
        break;
      }
    }
  }
  for (const name of ["dangling", "loop", "loop/x", "link\0", "file://example.com/x"]) {
    await refused("fs/read", { path: name });
    await refused("fs/write", { path: name, content: "x", create_dirs: true });
  }
  assert.deepEqual(fs.readdirSync(outside), ["secret"]);
  assert.equal(fs.readFileSync(path.join(outside, "secret"), "utf8"), "secret");
});

test("a link inside the workspace is followed, and stays", async (t) => {
  const { root, call } = rig(t);
  fs.writeFileSync(path.join(root, "target"), "old");
  fs.symlinkSync("target", path.join(root, "link"));
  assert.equal((await call("fs/read", { path: "link" }))["path"], "target");
  assert.deepEqual((await call("fs/write", { path: "link", content: "new" }))["path"], "target");
  assert.ok(fs.lstatSync(path.join(root, "link")).isSymbolicLink());
  assert.equal(fs.readFileSync(path.join(root, "target"), "utf8"), "new");
});

test("a directory that is swapped for a link all the time leads nowhere", async (t) => {
  const { dir, root, call } = rig(t);
  const swapped = path.join(root, "swapped");
  fs.mkdirSync(path.join(root, "real"));
  fs.writeFileSync(path.join(root, "real", "secret"), "inside");
  fs.symlinkSync(path.join(dir, "outside"), path.join(root, "evil"));
  fs.symlinkSync(path.join(root, "real"), swapped);
  let reads = 0;
  for (let i = 0; i < 400 || reads === 0; i++) {
    const pending = Promise.allSettled([call("fs/read", { path: "swapped/secret" }), call("fs/write", { path: `swapped/w${i % 5}`, content: "x" })]);
    for (const target of ["evil", "real", "evil", "real"]) {
      await new Promise(setImmediate);
      fs.symlinkSync(path.join(root, target), swapped + ".next");
      fs.renameSync(swapped + ".next", swapped);
    }
    const [read] = await pending;
    if (read.status === "fulfilled") {
      assert.equal(read.value["content"], "inside");
      reads++;
    }
  }
  assert.deepEqual(fs.readdirSync(path.join(dir, "outside")), ["secret"]);
});

test("what is not a regular file is refused at once", async (t) => {
  const { root, refused } = rig(t);
  execFileSync("mkfifo", [path.join(root, "pipe")]);
  for (const name of ["pipe", "."]) {
    assert.equal((await refused("fs/read", { path: name })).code, codes.badParams);
    assert.equal((await refused("fs/write", { path: name, content: "x" })).code, codes.badParams);
  }
  assert.equal((await refused("fs/read", { path: "gone" })).data?.["class"], "not_found");
  assert.equal((await refused("fs/list", { path: "gone" })).data?.["class"], "not_found");
  assert.equal((await refused("fs/read", { path: "" })).code, codes.badParams);
  assert.equal((await refused("fs/read", { path: "x".repeat(300) })).code, codes.badParams);
});

test("perigee's own directory is out of reach", async (t) => {
  const { root, call, refused } = rig(t);
  fs.mkdirSync(path.join(root, "own"));
  fs.writeFileSync(path.join(root, "own", "token"), "t");
  fs.symlinkSync("own", path.join(root, "alias"));
  for (const name of ["own/token", "alias/token", "own"]) {
    assert.equal((await refused("fs/read", { path: name })).data?.["class"], "forbidden");
  }
  assert.equal((await refused("fs/write", { path: "own/token", content: "" })).data?.["class"], "forbidden");
  assert.equal((await refused("fs/write", { path: "own/a/b", content: "", create_dirs: true })).data?.["class"], "forbidden");
  assert.deepEqual(paths(await call("fs/list", { recursive: true })), ["alias"]);
});

test("list follows ignore files and not links", async (t) => {
  const { root, call, refused } = rig(t);
  const write = (name: string, text = "") => {
    fs.mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    fs.writeFileSync(path.join(root, name), text);
  };
  write(".gitignore", "*.log\n!keep.log\n/build/\ndocs/*.tmp\n# comment\n\n[z-a]\n");
  write(".git/config");
  write(".git/info/exclude", "excluded\n");
  write("sub/.gitignore", "local\n!debug.log\n");
  for (const name of ["a.log", "keep.log", "build/x", "sub/build/x", "docs/a.tmp", "docs/deep/b.tmp", "sub/local", "local", "sub/debug.log", "excluded", "ö.txt"]) {
    write(name, "123");
  }
  fs.symlinkSync("sub", path.join(root, "link"));
  const all = ["docs/deep/b.tmp", "keep.log", "local", "sub/build/x", "sub/debug.log", "ö.txt", ".gitignore", "sub/.gitignore"];
  const listed = paths(await call("fs/list", { recursive: true }));
  assert.deepEqual(listed, [...all, "docs", "docs/deep", "sub", "sub/build", "link"].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
  assert.deepEqual(paths(await call("fs/list", {})), [".gitignore", "docs", "keep.log", "link", "local", "sub", "ö.txt"]);
  assert.deepEqual(paths(await call("fs/list", { path: "sub" })), ["sub/.gitignore", "sub/build", "sub/debug.log"]);
  assert.deepEqual(paths(await call("fs/list", { recursive: true, glob: "*.log" })), ["keep.log", "sub/debug.log"]);
  assert.deepEqual(paths(await call("fs/list", { recursive: true, glob: "**/x" })), ["sub/build/x"]);
  assert.deepEqual(paths(await call("fs/list", { recursive: true, glob: "{docs,sub}/*/?.[a-z]*" })), ["docs/deep/b.tmp"]);
  assert.ok(paths(await call("fs/list", { recursive: true, include_ignored: true })).includes("build/x"));
  const file = ((await call("fs/list", { glob: "keep.log" }))["entries"] as Json[])[0];
  assert.deepEqual(file, { path: "keep.log", type: "file", size: 3, modified: fs.statSync(path.join(root, "keep.log")).mtime.toISOString() });
  assert.equal((await refused("fs/list", { path: "keep.log" })).code, codes.badParams);
  assert.equal((await refused("fs/list", { glob: "[z-a]" })).code, codes.badParams);
  assert.equal((await refused("fs/list", { cursor: "not a cursor" })).code, codes.badParams);
});

test("list returns pages", async (t) => {
  const { root, call } = rig(t);
  for (let i = 0; i < 2345; i++) {
    fs.writeFileSync(path.join(root, `f${i}`), "");
  }
  const seen: string[] = [];
  let cursor: unknown;
  let pages = 0;
  do {
    const page: Json = await call("fs/list", cursor === undefined ? {} : { cursor });
    seen.push(...paths(page));
    cursor = page["next_cursor"];
    pages++;
  } while (cursor !== undefined);
  assert.equal(pages, 3);
  assert.equal(new Set(seen).size, 2345);
  assert.deepEqual(seen, seen.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
});

test("with several folders results have absolute paths, without one everything is outside", async (t) => {
  const second = temporaryDir(t);
  fs.writeFileSync(path.join(second, "s"), "2");
  const { root, call } = rig(t, [second, "/does/not/exist"]);
  fs.writeFileSync(path.join(root, "f"), "1");
  assert.equal((await call("fs/read", { path: "f" }))["path"], path.join(root, "f"));
  assert.equal((await call("fs/read", { path: path.join(second, "s") }))["content"], "2");
  const none = new Map(fileMethods(new Workspace(() => [])));
  const caller = { signal: new AbortController().signal, notify: () => undefined };
  await assert.rejects(async () => none.get("fs/list")?.(new Params({}), caller), { code: codes.outside });
});

test("names that Windows reserves are known", () => {
  for (const name of ["NUL", "a/con", "CON.txt", "a\\com1", "lpt9.x", "file:stream", "C:\\a\\b:c", "a.", "b ", "a?b"]) {
    assert.ok(hasReservedName(name), name);
  }
  for (const name of ["C:\\a\\b", "c:/a", ".", "../a", "console", "nullable.ts", "com10", ".git", "a b/c.d", ""]) {
    assert.ok(!hasReservedName(name), name);
  }
});
