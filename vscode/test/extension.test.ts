import assert from "node:assert/strict";
import { test } from "node:test";

import { startParts } from "../src/extension.js";
import type { Host, Part } from "../src/part.js";

test("a part that fails does not stop the parts after it", async () => {
  const started: string[] = [];
  const errors: string[] = [];
  const part = (name: string, activate: () => void | Promise<void>): Part => ({ name, activate });
  const host = { log: { error: (text: string) => errors.push(text) }, report: () => undefined } as unknown as Host;
  await startParts(
    [
      part("throws", () => { throw new Error("no port"); }),
      part("rejects", () => Promise.reject(new Error("no token"))),
      part("works", () => void started.push("works")),
    ],
    host,
  );
  assert.deepEqual(started, ["works"]);
  assert.deepEqual(errors, ["throws did not start: no port", "rejects did not start: no token"]);
});
