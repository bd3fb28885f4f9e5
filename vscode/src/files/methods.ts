import { badParams } from "../bridge/errors.js";
import type { Method } from "../bridge/session.js";
import { listFiles } from "./list.js";
import { maxLines, readFile } from "./read.js";
import type { Workspace } from "./workspace.js";
import { writeFile } from "./write.js";

// fileMethods are the methods fs/* of the bridge.
export function fileMethods(workspace: Workspace): [string, Method][] {
  return [
    [
      "fs/read",
      (params) =>
        readFile(workspace, params.nonEmpty("path"), params.integer("offset", 1, Number.MAX_SAFE_INTEGER), params.integer("limit", 1, Number.MAX_SAFE_INTEGER) ?? maxLines),
    ],
    [
      "fs/write",
      (params) => {
        const expected = params.optionalString("expected_sha256");
        if (expected !== undefined && !/^([0-9a-f]{64})?$/i.test(expected)) {
          throw badParams("expected_sha256 is neither empty nor 64 hexadecimal digits");
        }
        return writeFile(workspace, params.nonEmpty("path"), {
          content: params.string("content"),
          encoding: params.oneOf("encoding", ["utf-8", "base64"]) ?? "utf-8",
          expected,
          createDirs: params.boolean("create_dirs"),
        });
      },
    ],
    [
      "fs/list",
      (params) =>
        listFiles(workspace, params.optionalString("path") || ".", {
          glob: params.optionalString("glob"),
          recursive: params.boolean("recursive"),
          cursor: params.optionalString("cursor"),
          includeIgnored: params.boolean("include_ignored"),
        }),
    ],
  ];
}
