// Bundles the extension into dist/extension.js, or with --tests each test into out/test. Tests get test/vscode.ts in place of the
// vscode module, which exists only inside an editor, and perigee from this repository unless PERIGEE_TEST_BINARY names one.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";

const common = {
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  logLevel: "warning",
  // Optional native parts of ws; it works without them.
  external: ["bufferutil", "utf-8-validate"],
};

if (process.argv.includes("--tests")) {
  rmSync("out/test", { recursive: true, force: true });
  if (!process.env.PERIGEE_TEST_BINARY) {
    execFileSync("go", ["build", "-o", "out/perigee", "../cmd/perigee"], { stdio: "inherit" });
  }
  await build({
    ...common,
    entryPoints: readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`),
    outdir: "out/test",
    sourcemap: "inline",
    alias: { vscode: "./test/vscode.ts" },
    logOverride: { "import-is-undefined": "silent" }, // the stand-in has not everything
  });
} else {
  await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    minify: process.argv.includes("--minify"),
    sourcemap: false,
    external: [...common.external, "vscode"],
  });
}
