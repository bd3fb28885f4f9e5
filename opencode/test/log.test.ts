import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { Log } from "../src/log.js";
import { directory, openCode, until } from "./rig.js";

test("warnings go to OpenCode's log, and to a file of the user only if debug is set", async (t) => {
  const { client, calls } = await openCode(t, []);
  const log_dir = join(directory(t), "logs");
  new Log(client, { debug: 0, debug_tui: false, quiet_mode: false, log_dir }).warn("first");
  const log = new Log(client, { debug: 1, debug_tui: false, quiet_mode: false, log_dir }, () => new Date("2026-11-16T10:00:00Z"));
  await until(() => calls("/log").length === 1);
  assert.equal(existsSync(log_dir), false);
  log.warn("second", { sessionID: "ses_1" });
  log.info("third");
  log.detail("text of an error");
  const file = join(log_dir, "perigee-2026-11-16.log");
  assert.equal(readFileSync(file, "utf8"), '{"time":"2026-11-16T10:00:00.000Z","level":"warn","message":"second","sessionID":"ses_1"}\n' +
    '{"time":"2026-11-16T10:00:00.000Z","level":"info","message":"third"}\n');
  if (process.platform !== "win32") {
    assert.equal(statSync(file).mode & 0o777, 0o600);
  }
  await until(() => calls("/log").length === 2);
  assert.deepEqual(calls("/log").map(({ body }) => body.message), ["first", "second"]);
});

test("texts of errors are written with debug 2, and to OpenCode's log with debug_tui", async (t) => {
  const { client, calls } = await openCode(t, []);
  const log_dir = directory(t);
  new Log(client, { debug: 2, debug_tui: true, quiet_mode: false, log_dir }).detail("text of an error");
  assert.match(readFileSync(join(log_dir, readdirSync(log_dir)[0] ?? ""), "utf8"), /text of an error/);
  await until(() => calls("/log").length === 1);
});

test("files of seven days are kept", async (t) => {
  const { client } = await openCode(t, []);
  const log_dir = directory(t);
  for (let day = 10; day < 20; day++) {
    writeFileSync(join(log_dir, `perigee-2026-10-${day}.log`), "");
  }
  writeFileSync(join(log_dir, "notes.txt"), "");
  new Log(client, { debug: 1, debug_tui: false, quiet_mode: true, log_dir }, () => new Date("2026-11-16T10:00:00Z")).info("now");
  const kept = readdirSync(log_dir).sort();
  assert.deepEqual(kept, ["notes.txt", ...[13, 14, 15, 16, 17, 18, 19].map((day) => `perigee-2026-10-${day}.log`), "perigee-2026-11-16.log"]);
});

test("a log directory that cannot be written disturbs nothing", async (t) => {
  const { client } = await openCode(t, []);
  const file = join(directory(t), "file");
  writeFileSync(file, "");
  new Log(client, { debug: 1, debug_tui: false, quiet_mode: false, log_dir: join(file, "logs") }).info("lost");
});

test("there are no toasts in quiet mode", async (t) => {
  const { client, calls } = await openCode(t, []);
  const log_dir = directory(t);
  mkdirSync(log_dir, { recursive: true });
  new Log(client, { debug: 0, debug_tui: false, quiet_mode: true, log_dir }).toast("unseen", "info");
  new Log(client, { debug: 0, debug_tui: false, quiet_mode: false, log_dir }).toast("seen", "info");
  await until(() => calls("/show-toast").length === 1);
  assert.equal(calls("/show-toast")[0]?.body.message, "seen");
});
