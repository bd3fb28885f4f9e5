import * as fs from "node:fs/promises";
import * as path from "node:path";

import { translate } from "./glob.js";

interface Rule {
  readonly base: string; // the directory of the file that has the rule, relative to the root, "" or ending in /
  readonly expression: RegExp;
  readonly directories: boolean;
  readonly keep: boolean; // begins with !
}

// An Ignore has the rules of .gitignore, .ignore and .git/info/exclude for the directories that were entered. The last rule that
// matches decides.
export class Ignore {
  private constructor(private readonly rules: readonly Rule[]) {}

  static async of(root: string): Promise<Ignore> {
    const rules = await rulesOf(path.join(root, ".git", "info", "exclude"), "");
    return new Ignore(rules).enter(root, "");
  }

  // enter adds the rules of a directory. relative is "" or ends in /.
  async enter(dir: string, relative: string): Promise<Ignore> {
    const own = [await rulesOf(path.join(dir, ".gitignore"), relative), await rulesOf(path.join(dir, ".ignore"), relative)].flat();
    return own.length === 0 ? this : new Ignore([...this.rules, ...own]);
  }

  // has reports whether a path relative to the root is ignored. The directories above it are not looked at.
  has(relative: string, directory: boolean): boolean {
    if (path.posix.basename(relative) === ".git") {
      return true;
    }
    const last = this.rules.findLast(
      (rule) => (directory || !rule.directories) && relative.startsWith(rule.base) && rule.expression.test(relative.slice(rule.base.length)),
    );
    return last !== undefined && !last.keep;
  }
}

const maxRules = 1 << 20;

async function rulesOf(file: string, base: string): Promise<Rule[]> {
  const info = await fs.lstat(file).catch(() => undefined);
  if (info?.isFile() !== true || info.size > maxRules) {
    return [];
  }
  const text = await fs.readFile(file, "utf8").catch(() => "");
  return text.split(/\r?\n/).flatMap((line) => parseRule(line, base));
}

function parseRule(line: string, base: string): Rule[] {
  let pattern = line.replace(/(?<!\\) +$/, "");
  if (pattern === "" || pattern.startsWith("#")) {
    return [];
  }
  const keep = pattern.startsWith("!");
  pattern = pattern.slice(keep ? 1 : 0);
  const directories = pattern.endsWith("/");
  pattern = pattern.slice(0, directories ? -1 : undefined);
  const anchored = pattern.includes("/");
  pattern = pattern.replace(/^\//, "");
  if (pattern === "") {
    return [];
  }
  try {
    const source = translate(pattern.replace(/[{},]/g, "\\$&")); // git has no alternatives
    return [{ base, directories, keep, expression: new RegExp(`^${anchored ? "" : "(?:.*/)?"}${source}$`, "su") }];
  } catch {
    return []; // a set that is no valid range
  }
}
