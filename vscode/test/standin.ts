import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import * as path from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";

import { call, type Endpoint } from "../src/agent/call.js";
import { configuredModels } from "../src/agent/models.js";
import { stringAt, type Json } from "../src/json.js";
import { atEnd, eventually, patience, temporaryDir } from "./rig.js";

// perigee returns the program: $PERIGEE_TEST_BINARY, or the one that is built together with the tests.
export function perigee(): string {
  return process.env["PERIGEE_TEST_BINARY"] || path.resolve("out", "perigee");
}

// A StandIn is a language server process, a child of this one as in an IDE. It asks perigee's simulator of the provider.
export class StandIn {
  readonly csrf: string;
  readonly simulator: string; // a URL
  private readonly home: string;
  private process: ChildProcess | undefined;
  endpoint: Endpoint = { http: 0, https: 0, csrf: "" };

  private constructor(
    private readonly t: TestContext,
    simulator: string,
    private readonly fault: string,
  ) {
    this.simulator = simulator;
    this.home = temporaryDir(t);
    this.csrf = `csrf-${path.basename(this.home)}`;
  }

  // start starts both programs, and waits until the language server knows its models. A fault is one of the stand-in.
  static async start(t: TestContext, fault = ""): Promise<StandIn> {
    const standIn = new StandIn(t, await startSimulator(t), fault);
    await standIn.signIn();
    await standIn.restart();
    return standIn;
  }

  get pid(): number {
    return this.process?.pid ?? 0;
  }

  // call makes a call beside those of the code under test.
  call(method: string, request: Json): Promise<Json> {
    return call(this.endpoint, method, request, { limit: patience });
  }

  // failProvider makes the next calls of the provider fail.
  async failProvider(fault: Json): Promise<void> {
    const response = await fetch(`${this.simulator}/simulator/faults`, { method: "POST", body: JSON.stringify(fault) });
    assert.equal(response.ok, true, await response.text());
  }

  async kill(): Promise<void> {
    await (this.process && end(this.process, "SIGKILL"));
  }

  async restart(): Promise<void> {
    await this.kill();
    const args = ["simulate", "langserver", "--standalone", "--csrf_token", this.csrf, "--cloud_code_endpoint", this.simulator];
    const env = { HOME: this.home, PATH: process.env["PATH"] ?? "", PERIGEE_STANDIN: `generation=hub${this.fault === "" ? "" : ` fault=${this.fault}`}` };
    const child = spawn(perigee(), args, { env, stdio: ["ignore", "ignore", "pipe"] });
    this.process = child;
    atEnd(this.t, () => this.kill());
    const [http, https] = await ports(child);
    this.endpoint = { http, https, csrf: this.csrf };
    await eventually("models", async () => configuredModels(await this.call("GetUserStatus", {}).catch(() => ({}))).length > 0);
  }

  private async signIn(): Promise<void> {
    const body = new URLSearchParams({ grant_type: "refresh_token", refresh_token: "sim-refresh-ada", client_id: "test", client_secret: "test" });
    const answer: unknown = await (await fetch(`${this.simulator}/token`, { method: "POST", body })).json();
    const token = { access_token: stringAt(answer, "access_token"), token_type: "Bearer", expiry: new Date(Date.now() + 3_600_000).toISOString() };
    assert.notEqual(token.access_token, "");
    fs.mkdirSync(path.join(this.home, ".gemini"));
    fs.writeFileSync(path.join(this.home, ".gemini", "jetski-standalone-oauth-token"), JSON.stringify({ token }), { mode: 0o600 });
  }
}

// startSupervised starts a language server of a generation that needs an Extension Server, which perigee is then. It returns the ID of
// the parent process.
export async function startSupervised(t: TestContext, generation: string): Promise<number> {
  const simulator = await startSimulator(t);
  const home = temporaryDir(t);
  const env = { HOME: home, PATH: process.env["PATH"] ?? "" };
  const config = path.join(home, "perigee.yaml");
  const upstream = {
    name: "ide", kind: "langserver", accept_terms_risk: true, binary: "simulator", cloud_url: simulator, env: { PERIGEE_STANDIN: `generation=${generation}` },
    oauth: { token_url: `${simulator}/token`, userinfo_url: `${simulator}/oauth2/v2/userinfo`, client_id: "test", client_secret: "test" },
  };
  fs.writeFileSync(config, JSON.stringify({ upstreams: [upstream] }), { mode: 0o600 });
  const accounts = path.join(home, "accounts.json");
  fs.writeFileSync(accounts, JSON.stringify([{ email: "ada@example.com", refresh_token: "sim-refresh-ada" }]));
  await promisify(execFile)(perigee(), ["account", "import", accounts, "--config", config], { env });
  const child = spawn(perigee(), ["langserver", "run", "--config", config], { env, stdio: ["ignore", "pipe", "pipe"] });
  atEnd(t, () => end(child, "SIGTERM"));
  let text = "";
  child.stdout.on("data", (data: Buffer) => (text += data.toString()));
  child.stderr.on("data", (data: Buffer) => (text += data.toString()));
  await eventually("a language server that is ready", () => {
    assert.equal(child.exitCode, null, text);
    return /^ready pid=/m.test(text);
  });
  return child.pid ?? 0;
}

async function startSimulator(t: TestContext): Promise<string> {
  const child = spawn(perigee(), ["simulate", "--listen", "127.0.0.1:0"], { env: { HOME: temporaryDir(t), PATH: process.env["PATH"] ?? "" }, stdio: ["ignore", "pipe", "pipe"] });
  atEnd(t, () => end(child, "SIGKILL"));
  let text = "";
  child.stdout.on("data", (data: Buffer) => (text += data.toString()));
  child.stderr.on("data", (data: Buffer) => (text += data.toString()));
  const address = () => /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
  await eventually("the simulator", () => address() !== undefined);
  return address() ?? "";
}

// end signals a process and waits until it has ended.
async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill(signal);
    await once(child, "exit");
  }
}

async function ports(child: ChildProcess): Promise<[number, number]> {
  let text = "";
  child.stderr?.on("data", (data: Buffer) => (text += data.toString()));
  const port = (kind: string) => Number(new RegExp(`port at (\\d+) for ${kind}\\b`).exec(text)?.[1] ?? 0);
  await eventually("the ports of the language server", () => {
    assert.equal(child.exitCode, null, text);
    return port("HTTP") !== 0 && port("HTTPS") !== 0;
  });
  return [port("HTTP"), port("HTTPS")];
}
