import assert from "node:assert/strict";
import { test } from "node:test";

import { PayloadEncoder } from "../src/agent/payload.js";

const hex = (encoder: PayloadEncoder) => encoder.encode().toString("hex");
const message = () => new PayloadEncoder();

test("messages have the bytes that the IDE exchanges", () => {
  assert.equal(hex(message().string(1, "uss-oauth")), "0a097573732d6f61757468");
  const token = message().string(1, "AT").string(2, "Bearer").string(3, "RT").message(4, message().number(1, 4102444800));
  assert.equal(hex(token), "0a02415412064265617265721a02525422060880ae99a40f");
  assert.equal(token.encode().toString("base64"), "CgJBVBIGQmVhcmVyGgJSVCIGCICumaQP");
  const row = message().string(1, "oauthTokenInfoSentinelKey").message(2, message().string(1, token.encode().toString("base64")));
  const topic = "0a3f0a196f61757468546f6b656e496e666f53656e74696e656c4b657912220a2043674a4256424947516d5668636d567947674a5356434947434943756d615150";
  assert.equal(hex(message().message(1, row)), topic);
  assert.equal(hex(message().number(1, 40753).number(2, 33409).number(5, 40754)), "08b1be021081850228b2be02");
  assert.equal(hex(message().number(1, 1).string(2, "bash").string(3, "/bin/bash")), "08011204626173681a092f62696e2f62617368");
  assert.equal(
    hex(message().string(1, "antigravity").string(7, "1.21.6").string(12, "antigravity")),
    "0a0b616e7469677261766974793a06312e32312e36620b616e746967726176697479",
  );
  const summary = message().string(1, "c1").message(2, message().string(1, PayloadEncoder.textItem("hi").encode().toString("base64")));
  assert.equal(
    hex(message().message(1, message().string(1, "trajectorySummaries").message(5, summary))),
    "0a270a137472616a6563746f727953756d6d61726965732a100a026331120a0a0843674a6f61513d3d",
  );
  assert.equal(hex(message().string(1, "").number(2, 0)), "");
  assert.equal(hex(message().number(1, 2n ** 64n - 1n)), "08ffffffffffffffffff01");
});

test("a chat action has messages in base64, not texts", () => {
  assert.equal(PayloadEncoder.sendMessage("hi"), `{"actionType":"sendMessage","payload":["CgJoaQ=="]}`);
  const long = JSON.parse(PayloadEncoder.sendMessage("ö".repeat(100))) as { payload: string[] };
  assert.equal(Buffer.from(long.payload[0] ?? "", "base64").subarray(0, 3).toString("hex"), "0ac801");
});
