import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { load } from "../src/settings.js";
import { directory } from "./rig.js";

function home(t: TestContext, files: Record<string, string>): string {
  const path = directory(t);
  mkdirSync(join(path, ".config", "opencode"), { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(path, ".config", "opencode", name), content);
  }
  return path;
}

test("without a file the defaults of the documentation apply", (t) => {
  const path = home(t, {});
  assert.deepEqual(load({}, path), {
    settings: {
      url: "", key: "", session_recovery: true, auto_resume: true, resume_text: "continue", quiet_mode: false, debug: 0, debug_tui: false,
      log_dir: join(path, ".config", "opencode", "perigee-logs"),
    },
    file: join(path, ".config", "opencode", "perigee.json"),
    problem: "",
  });
});

test("the environment is put over the file", (t) => {
  const path = home(t, { "perigee.json": '{"url": "http://a:1", "key": "file", "quiet_mode": true, "debug": true, "auto_resume": false, "resume_text": "go on"}' });
  const { settings } = load({ PERIGEE_URL: "http://b:2", OPENCODE_PERIGEE_QUIET: "0", OPENCODE_PERIGEE_DEBUG: "2", OPENCODE_PERIGEE_DEBUG_TUI: "true" }, path);
  assert.equal(settings.url, "http://b:2");
  assert.equal(settings.key, "file");
  assert.equal(settings.quiet_mode, false);
  assert.equal(settings.debug, 2);
  assert.equal(settings.debug_tui, true);
  assert.equal(settings.auto_resume, false);
  assert.equal(settings.resume_text, "go on");
});

test("variables of opencode-antigravity-auth count where perigee's own are not set", (t) => {
  const path = home(t, {});
  const old = { OPENCODE_ANTIGRAVITY_QUIET: "1", OPENCODE_ANTIGRAVITY_DEBUG: "2", OPENCODE_ANTIGRAVITY_DEBUG_TUI: "1" };
  const { settings } = load(old, path);
  assert.equal(settings.quiet_mode, true);
  assert.equal(settings.debug, 2);
  assert.equal(settings.debug_tui, true);
  assert.equal(load({ ...old, OPENCODE_PERIGEE_DEBUG: "0" }, path).settings.debug, 0);
});

test("the file of opencode-antigravity-auth is read only if there is no perigee.json", (t) => {
  const old = '{"session_recovery": false, "resume_text": "weiter", "keep_thinking": true}';
  assert.equal(load({}, home(t, { "antigravity.json": old })).settings.resume_text, "weiter");
  assert.equal(load({}, home(t, { "antigravity.json": old, "perigee.json": "{}" })).settings.resume_text, "continue");
});

test("OPENCODE_CONFIG_DIR and XDG_CONFIG_HOME name the directory", (t) => {
  const path = home(t, {});
  assert.equal(load({ XDG_CONFIG_HOME: "/x" }, path).file, join("/x", "opencode", "perigee.json"));
  assert.equal(load({ XDG_CONFIG_HOME: "/x", OPENCODE_CONFIG_DIR: "/y" }, path).file, join("/y", "perigee.json"));
});

test("a broken file leaves the defaults and is reported with its path", (t) => {
  for (const content of ['{"auto_resume": false,', "[]"]) {
    const { settings, file, problem } = load({}, home(t, { "perigee.json": content }));
    assert.equal(settings.auto_resume, true);
    assert.ok(problem.startsWith(file), problem);
  }
});
