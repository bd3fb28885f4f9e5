// The language server of the window: perigee's stand-in, as a child of the extension host, with the flags of a real one.
"use strict";

const { spawn } = require("node:child_process");
const { randomUUID } = require("node:crypto");
const { once } = require("node:events");
const { rmSync } = require("node:fs");
const { request } = require("node:http");
const { createServer } = require("node:net");
const { tmpdir } = require("node:os");
const { join } = require("node:path");

const { startExtensionServer } = require("./extensionserver.js");

// startLanguageServer waits until the process serves. A hidden one has no token, by which language servers are recognized.
exports.startLanguageServer = async (context, folder, hidden) => {
  const cloud = process.env.STANDIN_CLOUD;
  const extensionCSRF = randomUUID();
  const extensionServer = await startExtensionServer(extensionCSRF, () => accessToken(cloud));
  const pipe = join(tmpdir(), `standin-${process.pid}.sock`);
  rmSync(pipe, { force: true });
  const lifeline = createServer(() => undefined).listen(pipe);
  await once(lifeline, "listening");

  const csrf = hidden ? "" : randomUUID();
  const flags = ["--enable_lsp", `--extension_server_port=${extensionServer.address().port}`, `--extension_server_csrf_token=${extensionCSRF}`,
    "--workspace_id", workspaceId(folder), "--cloud_code_endpoint", cloud, "--app_data_dir", "antigravity", "--parent_pipe_path", pipe];
  if (csrf !== "") {
    flags.push("--csrf_token", csrf);
  }
  const child = spawn(process.env.STANDIN_PERIGEE, ["simulate", "langserver", ...flags], {
    stdio: ["pipe", "ignore", "pipe"],
    env: { ...process.env, PERIGEE_STANDIN: "generation=classic2 belief=secret store=db" },
  });
  child.stdin.end(); // empty metadata
  context.subscriptions.push({ dispose: () => (child.kill(), lifeline.close(), extensionServer.close()) });

  const port = await new Promise((resolve, reject) => {
    let log = "";
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`the language server ended with ${code}: ${log.slice(-500)}`)));
    child.stderr.on("data", (chunk) => {
      if (log.length < 1 << 20) {
        log += chunk;
        const found = /listening on random port at (\d+) for HTTP$/m.exec(log);
        if (found) {
          resolve(Number(found[1]));
        }
      }
    });
  });
  const server = { pid: child.pid, port, csrf, call: (method, body) => call(port, csrf, method, body) };
  await server.call("AddTrackedWorkspace", { workspace: folder });
  return server;
};

// workspaceId is the URI of the folder with one underscore for each run of other characters than letters and digits.
function workspaceId(folder) {
  return `file://${folder}`.replace(/[^A-Za-z0-9\u0080-\uffff]+/g, "_");
}

let token;

// accessToken signs in at the simulator, once.
async function accessToken(cloud) {
  if (token === undefined) {
    const body = new URLSearchParams({ grant_type: "refresh_token", refresh_token: "sim-refresh-ada", client_id: "e2e", client_secret: "e2e-secret" });
    const response = await fetch(`${cloud}/token`, { method: "POST", body });
    token = (await response.json()).access_token;
  }
  return token ?? "";
}

// call makes a call in JSON, as the IDE's own windows do.
function call(port, csrf, method, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "connect-protocol-version": "1", connection: "close" };
    if (csrf !== "") {
      headers["x-codeium-csrf-token"] = csrf;
    }
    const path = `/exa.language_server_pb.LanguageServerService/${method}`;
    const sent = request({ host: "127.0.0.1", port, path, method: "POST", headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode === 200) {
          resolve(JSON.parse(text));
        } else {
          reject(new Error(`${method}: status ${response.statusCode}: ${text}`));
        }
      });
    });
    sent.on("error", reject);
    sent.end(JSON.stringify(body));
  });
}
