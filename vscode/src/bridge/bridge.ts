import { randomBytes } from "node:crypto";

import type { Agent } from "../agent/agent.js";
import { fileMethods } from "../files/methods.js";
import type { Workspace } from "../files/workspace.js";
import type { Json } from "../json.js";
import { Announcement } from "./announcement.js";
import { badParams, codes, RpcError } from "./errors.js";
import type { Params } from "./params.js";
import { Server, type ServerLimits } from "./server.js";
import type { Method } from "./session.js";

export const protocolVersion = 1;

// An Editor is what the bridge needs of the window.
export interface Editor {
  readonly ide: { readonly name: string; readonly version: string };
  folders(): readonly string[];
  showFile(path: string, line: number | undefined): Promise<void>;
}

export interface BridgeOptions {
  readonly editor: Editor;
  readonly workspace: Workspace;
  readonly agent: Agent;
  readonly announcement?: Announcement;
  readonly limits?: Partial<ServerLimits>;
  readonly changed?: () => void; // the state, or the number of clients
  readonly report: (problem: string) => void;
}

// A Bridge lets programs of the same user reach the window. It is stopped first.
export class Bridge {
  private server: Server | undefined;
  private starting: Promise<void> | undefined;
  private wanted = false;
  private token = "";
  private readonly announcement: Announcement;

  constructor(private readonly options: BridgeOptions) {
    this.announcement = options.announcement ?? new Announcement();
  }

  get port(): number | undefined {
    return this.server?.port;
  }

  get clients(): number {
    return this.server?.clients ?? 0;
  }

  // start listens and announces the window. It does nothing if that is so already.
  async start(): Promise<void> {
    this.wanted = true;
    this.starting ??= this.listen().finally(() => (this.starting = undefined));
    await this.starting;
  }

  // stop ends all connections and removes the announcement.
  stop(): void {
    this.wanted = false;
    const { server } = this;
    this.server = undefined;
    server?.close();
    this.options.changed?.();
    this.announcement.remove(); // last, because it can fail
  }

  // announce writes the announcement again, because the folders of the window have changed.
  announce(): void {
    if (this.server !== undefined) {
      const { editor } = this.options;
      this.announcement.write({ port: this.server.port, token: this.token, workspace: editor.folders(), ide: editor.ide });
    }
  }

  private async listen(): Promise<void> {
    if (this.server !== undefined) {
      return;
    }
    const { limits, changed, report } = this.options;
    const token = randomBytes(32).toString("base64url");
    const server = await Server.listen({
      token,
      methods: new Map(this.methods()),
      report,
      clientsChanged: () => changed?.(),
      ...(limits === undefined ? {} : { limits }),
    });
    if (!this.wanted) {
      server.close();
      return;
    }
    [this.server, this.token] = [server, token];
    try {
      this.announce();
    } catch (error) {
      this.server = undefined;
      server.close();
      throw error;
    }
    changed?.();
  }

  private methods(): [string, Method][] {
    return [
      ["hello", (params) => this.hello(params)],
      ["ui/show", (params) => this.show(params)],
      ...fileMethods(this.options.workspace),
      ...this.options.agent.methods(),
    ];
  }

  private async hello(params: Params): Promise<Json> {
    const version = params.integer("version", 0, Number.MAX_SAFE_INTEGER);
    if (version !== protocolVersion) {
      throw new RpcError(codes.version, `this window speaks version ${protocolVersion} of the protocol`, { version: protocolVersion });
    }
    const { editor, agent } = this.options;
    const { present, submit, busy, server } = await agent.state();
    const follow = server !== undefined;
    return {
      version: protocolVersion,
      ide: editor.ide,
      workspace: editor.folders(),
      pid: process.pid,
      busy,
      capabilities: { llm: present && (follow || submit), fs: editor.folders().length > 0, state: present, ui: true, follow },
      ...(server === undefined ? {} : { language_server: { port: server.http, https_port: server.https, csrf_token: server.csrf } }),
    };
  }

  private async show(params: Params): Promise<Json> {
    const conversation = params.optionalString("conversation");
    const file = params.optionalString("file");
    const line = params.integer("line", 1, Number.MAX_SAFE_INTEGER);
    if (!conversation && !file) {
      throw badParams("neither conversation nor file is given");
    }
    if (file) {
      const target = await this.options.workspace.resolve(file);
      if (!target.exists) {
        throw badParams(`${file} does not exist`, "not_found");
      }
      await this.options.editor.showFile(target.real, line);
    }
    if (conversation) {
      await this.options.agent.show(conversation);
    }
    return {};
  }
}
