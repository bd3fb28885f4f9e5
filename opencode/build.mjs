// Bundles the plugin into one file, ../bin/perigee-opencode.js or the one that is named: node build.mjs [FILE]. With --tests, each test
// goes into out/test.
import { build } from "esbuild";
import { readdirSync, rmSync } from "node:fs";

const common = { bundle: true, platform: "node", format: "esm", target: "node20", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  rmSync("out/test", { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`),
    outdir: "out/test",
    sourcemap: "inline",
    packages: "external",
  });
} else {
  const target = process.argv[2] ?? "../bin/perigee-opencode.js";
  await build({ ...common, entryPoints: ["src/index.ts"], outfile: target });
  console.log(target);
}
