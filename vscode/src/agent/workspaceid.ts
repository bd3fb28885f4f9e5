import * as fs from "node:fs";

// workspaceIds returns the names that a language server can have for a folder or a *.code-workspace file: its URI, in which every run
// of other characters than letters and digits is one underscore. Versions differ in whether the URI is escaped before that. A path with
// links has the names of both ends.
export function workspaceIds(folder: string): string[] {
  const ids = [folder, resolved(folder)].flatMap((each) => {
    let path = each.replaceAll("\\", "/").replace(/\/+$/, "");
    if (/^[A-Za-z]:\//.test(path)) {
      path = path.slice(0, 1).toLowerCase() + path.slice(1);
    }
    path = path.replace(/^\//, "");
    const escaped = path.split("/").map(escape).join("/");
    return [underscored(`file:///${path}`), underscored(`file:///${escaped}`)];
  });
  return [...new Set(ids)];
}

// escape escapes a part of a path as the editor does in URIs.
function escape(part: string): string {
  return encodeURIComponent(part).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

function resolved(path: string): string {
  try {
    return fs.realpathSync(path);
  } catch {
    return path;
  }
}

function underscored(uri: string): string {
  return uri.replace(/[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+/g, "_");
}
