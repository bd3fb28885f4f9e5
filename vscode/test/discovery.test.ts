import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { Locator, choose } from "../src/agent/locate.js";
import { flag, isLanguageServer, parseLsof, parsePowerShell, parsePs, parseSockets, type Process } from "../src/agent/processes.js";
import { workspaceIds } from "../src/agent/workspaceid.js";
import { temporaryDir } from "./rig.js";

const program = "/opt/antigravity/bin/language_server_linux_x64";

test("a workspace has the names that language servers give it", (t) => {
  const expected: Record<string, string[]> = {
    "/home/u/my-proj": ["file_home_u_my_proj"],
    "/home/u/my-proj/": ["file_home_u_my_proj"],
    "/home/u/my proj (2)": ["file_home_u_my_proj_2_", "file_home_u_my_20proj_20_282_29"],
    "/home/u/a.code-workspace": ["file_home_u_a_code_workspace"],
    "/home/u/größe": ["file_home_u_größe", "file_home_u_gr_C3_B6_C3_9Fe"],
    "C:\\Users\\u": ["file_c_Users_u", "file_c_3A_Users_u"],
    "/": ["file_"],
  };
  for (const [folder, ids] of Object.entries(expected)) {
    for (const id of ids) {
      assert.ok(workspaceIds(folder).includes(id), `${folder}: ${workspaceIds(folder).join(" ")}, want ${id}`);
    }
  }
  const dir = temporaryDir(t);
  fs.mkdirSync(path.join(dir, "target"));
  fs.symlinkSync("target", path.join(dir, "link"));
  assert.match(workspaceIds(path.join(dir, "link")).join(" "), /_link .*_target/);
});

test("command lines are read as Go's flag package reads them", () => {
  assert.equal(flag(["x", "--a", "1", "-b=2", "--c=", "--d"], "a"), "1");
  assert.equal(flag(["x", "--a", "1", "-b=2", "--c=", "--d"], "b"), "2");
  assert.equal(flag(["x", "--a", "1", "-b=2=3", "--c=", "--d"], "b"), "2=3");
  assert.equal(flag(["x", "--c=", "--d"], "c"), "");
  assert.equal(flag(["x", "--d"], "d"), "");
  assert.equal(flag(["x", "a", "1"], "a"), "");
  for (const [args, expected] of [
    [[program, "--csrf_token", "t"], true],
    [["C:\\x\\language_server_windows_x64.exe", "--csrf_token=t"], true],
    [["language_server", "--csrf_token=t"], true],
    [["perigee", "simulate", "langserver", "--csrf_token", "t"], true],
    [[program, "--enable_lsp"], false],
    [["/opt/my_language_server", "--csrf_token", "t"], false],
    [["/usr/bin/vim", program, "--csrf_token", "t"], false],
    [[], false],
  ] as const) {
    assert.equal(isLanguageServer(args), expected, args.join(" "));
  }
});

test("tables of the system are read", () => {
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F91 0100007F:C000 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 100 0 0 10 0
   2: 0101A8C0:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 100 0 0 10 0
   3: 00000000:1F93 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 14 1 0 100 0 0 10 0
   4: 00000000000000000000000000000000:1F94 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 15 1
   5: broken
`;
  assert.deepEqual(parseSockets(table), [{ port: 8080, inode: "11" }, { port: 8083, inode: "14" }, { port: 8084, inode: "15" }]);
  const listing = `  12   1 /sbin/launchd
 812 700 /Applications/Antigravity IDE.app/Contents/Resources/app/extensions/antigravity/bin/language_server_macos_arm --enable_lsp --csrf_token abc --workspace_id file_Users_u_p
 813 700 /usr/bin/grep language_server --csrf_token
broken`;
  assert.deepEqual(parsePs(listing).map(({ pid, parent, args }) => [pid, parent, flag(args, "csrf_token"), flag(args, "workspace_id")]), [[812, 700, "abc", "file_Users_u_p"]]);
  assert.deepEqual(parseLsof("p812\nf12\nn127.0.0.1:4711\nn*:4712\nn192.168.1.1:4713\nn127.0.0.1:4711\nn[::1]:4714\n"), [4711, 4712, 4714]);
});

test("the output of PowerShell is read", async () => {
  const one = { pid: 9, parent: 8, command: `"C:\\Program Files\\Antigravity\\bin\\language_server_windows_x64.exe" --csrf_token t --lsp_port 5`, ports: [4711, "x"] };
  for (const text of [JSON.stringify(one), JSON.stringify([one, null, { pid: 10, command: null }])]) {
    const found = parsePowerShell(text);
    assert.equal(found.length, 1);
    assert.deepEqual([found[0]?.pid, found[0]?.parent, await found[0]?.ports(), flag(found[0]?.args ?? [], "lsp_port")], [9, 8, [4711], "5"]);
  }
  assert.deepEqual(parsePowerShell(""), []);
  assert.deepEqual(parsePowerShell("no JSON"), []);
});

function candidate(pid: number, parent: number, ...flags: string[]): Process {
  return { pid, parent, args: [program, "--csrf_token", "t", ...flags], ports: async () => [] };
}

test("the language server of the window is chosen, and never guessed", () => {
  const own = candidate(1, 100, "--workspace_id", "file_w_a", "--https_server_port", "1");
  const global = candidate(2, 100);
  const other = candidate(3, 200, "--workspace_id", "file_w_b");
  const detached = candidate(4, 1, "--workspace_id", "file_w_a");
  const cases: [string, Process[], string[], number | RegExp][] = [
    ["a child with the workspace", [other, global, own, detached], ["/w/a"], 1],
    ["the only child", [other, global], ["/w/a"], 2],
    ["no child, but the workspace", [other, detached], ["/w/a"], 4],
    ["the workspace file", [other, candidate(5, 1, "--workspace_id", "file_w_x_code_workspace")], ["/w/x.code-workspace", "/w/a"], 5],
    ["no folder", [global, own], [], 2],
    ["no folder, and one for all windows", [global, candidate(6, 100, "--https_server_port", "1")], [], 6],
    ["two of the same workspace", [detached, candidate(7, 1, "--workspace_id", "file_w_a")], ["/w/a"], /several.*4, 7/],
    ["only one of another window", [other], ["/w/a"], /no language server/],
    ["none of a window without a folder", [other, candidate(8, 1)], [], /no language server/],
    ["nothing", [], ["/w/a"], /no language server/],
  ];
  for (const [name, all, workspaces, expected] of cases) {
    const found = choose(all, 100, workspaces);
    if (typeof expected === "number") {
      assert.equal(typeof found === "string" ? found : found.pid, expected, name);
    } else {
      assert.match(String(found), expected, name);
    }
  }
});

test("a search that finds nothing or fails is reported once, and not repeated at once", async () => {
  const problems: string[] = [];
  let searches = 0;
  const locator = new Locator(() => [], (problem) => problems.push(problem), async () => {
    searches++;
    throw new Error("no processes");
  });
  const all = await Promise.all([locator.locate(), locator.locate()]);
  assert.deepEqual([...all, await locator.locate()], [undefined, undefined, undefined]);
  assert.equal(searches, 1);
  await locator.locate(true);
  assert.equal(searches, 2);
  assert.deepEqual(problems, ["searching for the language server failed: no processes"]);
});
