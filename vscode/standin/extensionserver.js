// The Extension Server that a language server calls, as far as its stand-in needs one: topics without rows, the access token as the secret
// oauth_token, and empty answers to everything else. Messages are protobuf, in envelopes on streams.
"use strict";

const { createServer } = require("node:http");
const { once } = require("node:events");

// startExtensionServer listens on a port of its own. token is asked for with each call of GetSecretValue.
exports.startExtensionServer = async (csrf, token) => {
  const server = createServer(async (request, response) => {
    request.resume();
    if (request.headers["x-codeium-csrf-token"] !== csrf) {
      response.writeHead(403).end("invalid CSRF token");
      return;
    }
    const method = request.url.slice(request.url.lastIndexOf("/") + 1);
    if (method === "SubscribeToUnifiedStateSyncTopic") {
      response.writeHead(200, { "content-type": "application/connect+proto" });
      response.write(envelope(Buffer.from([0x0a, 0x00]))); // an initial state without rows; the stream stays open
      return;
    }
    response.writeHead(200, { "content-type": "application/proto" });
    response.end(method === "GetSecretValue" ? stringField(1, await token()) : undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
};

function envelope(message) {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function stringField(number, text) {
  const bytes = Buffer.from(text);
  const length = [];
  for (let rest = bytes.length; ; rest >>>= 7) {
    length.push(rest > 0x7f ? (rest & 0x7f) | 0x80 : rest);
    if (rest <= 0x7f) {
      break;
    }
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
}
