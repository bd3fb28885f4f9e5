// compileGlob returns a test of paths with / between their parts: * and ? match within a part, ** any number of parts, [a-z] and
// {a,b} alternatives. A pattern without / matches base names.
export function compileGlob(pattern: string): (path: string) => boolean {
  const expression = new RegExp(`^${translate(pattern)}$`, "su");
  if (pattern.includes("/")) {
    return (path) => expression.test(path);
  }
  return (path) => expression.test(path.slice(path.lastIndexOf("/") + 1));
}

// translate turns a pattern into the source of a regular expression.
export function translate(pattern: string): string {
  let source = "";
  let depth = 0;
  for (let at = 0; at < pattern.length; at++) {
    const rest = pattern.slice(at);
    const star = /^(\*\*\/|\/\*\*$|\*\*|\*)/.exec(rest)?.[0];
    const set = /^\[([!^]?)(\]?[^\]/]*)\]/.exec(rest);
    if (star !== undefined) {
      source += { "**/": "(?:[^/]+/)*", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*" }[star] ?? "";
      at += star.length - 1;
    } else if (set !== null) {
      source += `(?!/)[${set[1] === "" ? "" : "^"}${(set[2] ?? "").replace(/[\\\]\[&~]/g, "\\$&")}]`;
      at += set[0].length - 1;
    } else if (rest.startsWith("?")) {
      source += "[^/]";
    } else if (rest.startsWith("{") && rest.includes("}")) {
      source += "(?:";
      depth++;
    } else if (rest.startsWith("}") && depth > 0) {
      source += ")";
      depth--;
    } else if (rest.startsWith(",") && depth > 0) {
      source += "|";
    } else {
      at += rest.startsWith("\\") && rest.length > 1 ? 1 : 0;
      source += literal(pattern[at] ?? "");
    }
  }
  return source + ")".repeat(depth);
}

function literal(character: string): string {
  return /[\^$\\.*+?()[\]{}|/-]/.test(character) ? `\\${character}` : character;
}
