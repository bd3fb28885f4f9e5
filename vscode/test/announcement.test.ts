import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { Announcement, bridgesDir } from "../src/bridge/announcement.js";
import { atEnd, temporaryDir } from "./rig.js";

const content = { port: 4711, token: "t", workspace: ["/w"], ide: { name: "Antigravity", version: "1.2.3" } };

test("the directory follows perigee's rule", () => {
  assert.equal(bridgesDir("linux", {}, "/home/u"), "/home/u/.config/perigee/bridges");
  assert.equal(bridgesDir("linux", { XDG_CONFIG_HOME: "/x" }, "/home/u"), "/x/perigee/bridges");
  assert.equal(bridgesDir("linux", { XDG_CONFIG_HOME: "relative" }, "/home/u"), "/home/u/.config/perigee/bridges");
  assert.equal(bridgesDir("darwin", { XDG_CONFIG_HOME: "/x" }, "/Users/u"), "/Users/u/Library/Application Support/perigee/bridges");
  assert.equal(bridgesDir("win32", { APPDATA: "/appdata" }, "/u"), path.join("/appdata", "perigee", "bridges"));
  assert.equal(bridgesDir("win32", { PERIGEE_BRIDGES: "/b" }, "/u"), "/b");
  assert.throws(() => bridgesDir("linux", {}, ""), /PERIGEE_BRIDGES/);
});

test("the file is the user's own, complete at any time, and removed at the end", (t) => {
  const dir = path.join(temporaryDir(t), "perigee", "bridges");
  const announcement = new Announcement(dir, 77);
  const before = process.umask(0);
  atEnd(t, () => process.umask(before));
  announcement.write(content);
  const file = path.join(dir, "77.json");
  assert.equal(announcement.path, file);
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  assert.equal(fs.statSync(dir).mode & 0o777, 0o700);
  assert.deepEqual(JSON.parse(fs.readFileSync(file, "utf8")), { version: 1, ...content, pid: 77 });
  const first = fs.statSync(file).ino;
  announcement.write({ ...content, workspace: ["/w", "/v"] });
  assert.notEqual(fs.statSync(file).ino, first, "the file was rewritten in place");
  assert.deepEqual(fs.readdirSync(dir), ["77.json"]);
  announcement.remove();
  assert.deepEqual(fs.readdirSync(dir), []);
  announcement.remove();
});

test("the file of another process with the same ID is left alone", (t) => {
  const dir = temporaryDir(t);
  const mine = new Announcement(dir, 78);
  mine.write(content);
  new Announcement(dir, 78).write({ ...content, token: "other" });
  mine.remove();
  assert.deepEqual(fs.readdirSync(dir), ["78.json"]);
});

test("a link in place of the file is replaced, not followed", (t) => {
  const dir = temporaryDir(t);
  const victim = path.join(dir, "victim");
  fs.writeFileSync(victim, "kept");
  fs.symlinkSync(victim, path.join(dir, "79.json"));
  new Announcement(dir, 79).write(content);
  assert.equal(fs.readFileSync(victim, "utf8"), "kept");
  assert.ok(fs.lstatSync(path.join(dir, "79.json")).isFile());
});

test("a directory that other users can read is closed, and what cannot be written leaves nothing", (t) => {
  const dir = path.join(temporaryDir(t), "bridges");
  fs.mkdirSync(dir, { mode: 0o755 });
  fs.chmodSync(dir, 0o755);
  fs.mkdirSync(path.join(dir, "80.json")); // cannot be replaced by a file
  assert.throws(() => new Announcement(dir, 80).write(content));
  assert.equal(fs.statSync(dir).mode & 0o777, 0o700);
  assert.deepEqual(fs.readdirSync(dir), ["80.json"]);
});
