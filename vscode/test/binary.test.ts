import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { test } from "node:test";

import { findBinary } from "../src/binary.js";

test("the program is found on PATH or by its absolute path", { skip: process.platform === "win32" }, async () => {
  const dir = mkdtempSync(join(tmpdir(), "perigee-"));
  try {
    mkdirSync(join(dir, "a", "perigee"), { recursive: true }); // a folder is no program
    mkdirSync(join(dir, "b"));
    const program = join(dir, "b", "perigee");
    writeFileSync(program, "#!/bin/sh\n");
    const env = { PATH: ["relative", join(dir, "a"), join(dir, "b")].join(delimiter) };
    assert.equal(await findBinary("perigee", env), undefined, "not executable");
    chmodSync(program, 0o755);
    assert.equal(await findBinary("perigee", env), program);
    assert.equal(await findBinary("", env), program);
    assert.equal(await findBinary(program, {}), program);
    assert.equal(await findBinary("./b/perigee", env), undefined);
    assert.equal(await findBinary("absent", env), undefined);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
