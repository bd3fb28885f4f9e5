import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { promisify } from "node:util";

import { isObject, listAt, numberAt, parse, stringAt } from "../json.js";

// A Process is one that may be a language server.
export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly args: readonly string[];
  // ports returns those that it listens on.
  ports(): Promise<number[]>;
}

const run = promisify(execFile);
const runOptions = { timeout: 10_000, maxBuffer: 16 << 20, windowsHide: true };

// languageServers returns the processes of this user whose command line is that of a language server.
export async function languageServers(): Promise<Process[]> {
  switch (process.platform) {
    case "linux":
      return fromProc();
    case "win32":
      return fromPowerShell();
    default:
      return fromPs();
  }
}

// isLanguageServer reports whether a command line is one of a language server with a token: by the name of its program, which differs
// between systems in what follows, or as perigee's stand-in.
export function isLanguageServer(args: readonly string[]): boolean {
  const name = (args[0] ?? "").split(/[/\\]/).at(-1) ?? "";
  const standIn = args[1] === "simulate" && args[2] === "langserver";
  return (/^language_server([_.]|$)/.test(name) || standIn) && flag(args, "csrf_token") !== "";
}

// flag returns the value of a flag as Go's flag package reads it: -name value, --name=value.
export function flag(args: readonly string[], name: string): string {
  for (const [at, arg] of args.entries()) {
    const match = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(arg);
    if (match?.[1] === name) {
      return match[2] ?? args[at + 1] ?? "";
    }
  }
  return "";
}

async function fromProc(): Promise<Process[]> {
  const own = process.getuid?.();
  const names = (await fs.readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    names.map(async (name): Promise<Process | undefined> => {
      try {
        const args = (await fs.readFile(`/proc/${name}/cmdline`, "utf8")).split("\0").slice(0, -1);
        if (!isLanguageServer(args) || (await fs.stat(`/proc/${name}`)).uid !== own) {
          return undefined;
        }
        const stat = await fs.readFile(`/proc/${name}/stat`, "utf8");
        const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
        return { pid: Number(name), parent, args, ports: () => procPorts(name) };
      } catch {
        return undefined; // it has ended
      }
    }),
  );
  return found.filter((each) => each !== undefined);
}

async function procPorts(pid: string): Promise<number[]> {
  const dir = `/proc/${pid}/fd`;
  const links = await Promise.all((await fs.readdir(dir)).map((name) => fs.readlink(`${dir}/${name}`).catch(() => "")));
  const own = new Set(links.map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]));
  const tables = await Promise.all(["tcp", "tcp6"].map((name) => fs.readFile(`/proc/self/net/${name}`, "utf8").catch(() => "")));
  const ports = tables.flatMap(parseSockets).filter((socket) => own.has(socket.inode));
  return [...new Set(ports.map((socket) => socket.port))];
}

// parseSockets reads the listening sockets that 127.0.0.1 reaches from a table of the kernel.
export function parseSockets(table: string): { port: number; inode: string }[] {
  const reachable = ["0100007F", "00000000", "0".repeat(32), "0000000000000000FFFF00000100007F"];
  return table.split("\n").slice(1).flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const [address, port] = (fields[1] ?? "").split(":");
    const inode = fields[9];
    if (fields[3] !== "0A" || !reachable.includes(address ?? "") || port === undefined || inode === undefined) {
      return [];
    }
    return [{ port: Number.parseInt(port, 16), inode }];
  });
}

async function fromPs(): Promise<Process[]> {
  const { stdout } = await run("ps", ["-xww", "-o", "pid=,ppid=,command="], runOptions);
  return parsePs(stdout).map((each) => ({
    ...each,
    ports: async () => {
      const listing = await run("lsof", ["-nP", "-a", "-p", String(each.pid), "-iTCP", "-sTCP:LISTEN", "-Fn"], runOptions);
      return parseLsof(listing.stdout);
    },
  }));
}

// parsePs reads lines of process ID, parent and command. The program may have spaces in its path; values of its flags have none.
export function parsePs(text: string): { pid: number; parent: number; args: string[] }[] {
  return text.split("\n").flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line);
    if (match === null) {
      return [];
    }
    const args = splitCommand(match[3] ?? "");
    return isLanguageServer(args) ? [{ pid: Number(match[1]), parent: Number(match[2]), args }] : [];
  });
}

// splitCommand splits a command line whose program may have spaces in its path.
function splitCommand(command: string): string[] {
  const program = /^"([^"]*)"\s*|^(.*?[/\\]language_server[^\s/\\]*)(?=\s|$)/.exec(command);
  const rest = program === null ? command : command.slice(program[0].length);
  const words = rest.trim().split(/\s+/).filter(Boolean);
  return program === null ? words : [program[1] ?? program[2] ?? "", ...words];
}

// parseLsof reads the names of lsof -Fn, such as n127.0.0.1:4711 or n*:4711.
export function parseLsof(text: string): number[] {
  const ports = text.split("\n").flatMap((line) => /^n(?:127\.0\.0\.1|\*|\[::1?\]|localhost):(\d+)$/.exec(line)?.[1] ?? []);
  return [...new Set(ports.map(Number))];
}

const script = `
$ErrorActionPreference = 'SilentlyContinue'
$all = @(Get-CimInstance Win32_Process -Filter "Name LIKE 'language_server%'")
$ports = @(Get-NetTCPConnection -State Listen | Where-Object { $all.ProcessId -contains $_.OwningProcess })
ConvertTo-Json -Compress -Depth 4 @($all | ForEach-Object { $id = $_.ProcessId; @{
  pid = $id; parent = $_.ParentProcessId; command = $_.CommandLine
  ports = @($ports | Where-Object { $_.OwningProcess -eq $id } | ForEach-Object { $_.LocalPort }) } })`;

async function fromPowerShell(): Promise<Process[]> {
  const { stdout } = await run("powershell.exe", ["-NoProfile", "-NonInteractive", "-Command", script], runOptions);
  return parsePowerShell(stdout);
}

// parsePowerShell reads the output of the script. A list of one element may come as the element.
export function parsePowerShell(text: string): Process[] {
  const value = parse(text);
  return (Array.isArray(value) ? value : [value]).flatMap((each): Process[] => {
    const pid = numberAt(each, "pid");
    const args = splitCommand(stringAt(each, "command"));
    if (!isObject(each) || pid === undefined || !isLanguageServer(args)) {
      return [];
    }
    const ports = listAt(each, "ports").filter((port): port is number => typeof port === "number");
    return [{ pid, parent: numberAt(each, "parent") ?? 0, args, ports: () => Promise.resolve(ports) }];
  });
}
