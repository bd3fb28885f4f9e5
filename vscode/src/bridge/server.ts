import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, STATUS_CODES, type IncomingMessage, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

import { WebSocketServer, type RawData, type WebSocket } from "ws";

import { Session, type Method } from "./session.js";

export interface ServerLimits {
  readonly clients: number;
  readonly requests: number; // of one client at once
  readonly message: number; // bytes, either way
  readonly hello: number; // milliseconds until hello is answered
  readonly ping: number; // milliseconds between pings
}

export const usualLimits: ServerLimits = { clients: 16, requests: 32, message: 16 << 20, hello: 10_000, ping: 20_000 };

export interface ServerOptions {
  readonly token: string;
  readonly methods: ReadonlyMap<string, Method>;
  readonly limits?: Partial<ServerLimits>;
  // clientsChanged is called with the number of clients.
  readonly clientsChanged?: (count: number) => void;
  readonly report?: (problem: string) => void;
}

// The connections that may be open before their upgrade, in addition to clients, and how long.
const sparePlaces = 32;
const upgradeTime = 5_000;

// A Server accepts WebSocket clients on a free port of 127.0.0.1 if they know the token. Browsers are refused: they send an Origin,
// or the Host of a name that resolves to this machine.
export class Server {
  readonly port: number;
  private readonly limits: ServerLimits;
  private readonly sockets: WebSocketServer;
  private readonly alive = new Map<WebSocket, boolean>(); // whether it has answered the last ping
  private pinging: NodeJS.Timeout | undefined;

  static async listen(options: ServerOptions): Promise<Server> {
    const http = createServer((request, response) => {
      const status = refusal(request, port, options.token) ?? 426;
      response.writeHead(status, { Connection: "close", ...(status === 426 ? { Upgrade: "websocket" } : {}) }).end();
    });
    await new Promise<void>((resolve, reject) => {
      http.once("error", reject);
      http.listen({ host: "127.0.0.1", port: 0 }, resolve);
    });
    const { port } = http.address() as AddressInfo;
    return new Server(http, port, options);
  }

  private constructor(
    private readonly http: HttpServer,
    port: number,
    private readonly options: ServerOptions,
  ) {
    this.port = port;
    this.limits = { ...usualLimits, ...options.limits };
    this.sockets = new WebSocketServer({ noServer: true, maxPayload: this.limits.message, perMessageDeflate: false });
    http.maxConnections = this.limits.clients + sparePlaces;
    http.setTimeout(upgradeTime);
    http.on("upgrade", (request, socket, head) => this.upgrade(request, socket, head));
    http.on("error", (error) => this.report(`the listener failed: ${error.message}`));
  }

  get clients(): number {
    return this.alive.size;
  }

  // close ends all connections at once.
  close(): void {
    clearInterval(this.pinging);
    for (const socket of this.alive.keys()) {
      socket.terminate();
    }
    this.http.close();
    this.http.closeAllConnections();
  }

  private report(problem: string): void {
    this.options.report?.(problem);
  }

  private upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    const status = refusal(request, this.port, this.options.token) ?? (this.alive.size >= this.limits.clients ? 503 : undefined);
    if (status !== undefined) {
      this.report(`a connection was refused with status ${status}`);
      socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    this.sockets.handleUpgrade(request, socket, head, (client) => this.accept(client));
  }

  private accept(client: WebSocket): void {
    const session = new Session(
      { send: (text) => this.send(client, text), backlog: () => client.bufferedAmount },
      this.options.methods,
      this.limits,
      (problem) => this.report(problem),
    );
    const greeting = setTimeout(() => {
      if (!session.hasGreeted) {
        client.close(1008, "no hello");
      }
    }, this.limits.hello);
    this.alive.set(client, true);
    this.changed();
    client.on("pong", () => this.alive.set(client, true));
    client.on("error", (error) => this.report(`a client was disconnected: ${error.message}`));
    client.on("message", (data: RawData, binary: boolean) => {
      if (binary) {
        client.close(1003, "text only");
      } else {
        void session.receive(textOf(data));
      }
    });
    client.on("close", () => {
      clearTimeout(greeting);
      session.close();
      this.alive.delete(client);
      this.changed();
    });
  }

  // send gives up a client that asks and does not read the answers.
  private send(client: WebSocket, text: string): void {
    if (client.bufferedAmount > 4 * this.limits.message) {
      client.terminate();
    } else {
      client.send(text);
    }
  }

  // changed pings while there are clients, so that an idle bridge does nothing.
  private changed(): void {
    if (this.alive.size === 0) {
      clearInterval(this.pinging);
      this.pinging = undefined;
    } else {
      this.pinging ??= setInterval(() => this.ping(), this.limits.ping);
    }
    this.options.clientsChanged?.(this.alive.size);
  }

  private ping(): void {
    for (const [client, answered] of this.alive) {
      if (!answered) {
        client.terminate();
        continue;
      }
      this.alive.set(client, false);
      client.ping();
    }
  }
}

function textOf(data: RawData): string {
  return (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer)).toString("utf8");
}

// refusal is the HTTP status with which a request is refused before it is upgraded.
function refusal(request: IncomingMessage, port: number, token: string): number | undefined {
  const { host, origin, authorization } = request.headers;
  if (origin !== undefined || (host !== `127.0.0.1:${port}` && host?.toLowerCase() !== `localhost:${port}`)) {
    return 403;
  }
  const given = /^bearer +(\S+)$/i.exec(authorization ?? "")?.[1];
  if (given === undefined || !sameToken(given, token)) {
    return 401;
  }
  return request.url === "/" ? undefined : 404;
}

// sameToken takes the same time for all tokens.
function sameToken(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
