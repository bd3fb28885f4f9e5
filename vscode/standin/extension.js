// A stand-in of the IDE's own extension, for tests in a real extension host. A folder with the file .standin.json is a window of the IDE: it
// gets the antigravity.* commands and a language server of its own; in every other window the editor is a plain VS Code.
//
//   .standin.json        {"langserver": "open"}: its process can be found; "hidden": it cannot; "none": there are only commands
//   STANDIN_PERIGEE      the perigee binary, which plays the language server
//   STANDIN_CLOUD        the address of perigee simulate, its cloud
//   STANDIN_DIR          a directory: each extension host announces its control server there, in <pid>.json
"use strict";

const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const vscode = require("vscode");

const { registerParticipant } = require("./chat.js");
const { startControl } = require("./control.js");
const { startLanguageServer } = require("./langserver.js");
const { registerPanel } = require("./panel.js");

exports.activate = async (context) => {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const state = { folder: folder ?? "", langserver: undefined, prompts: [] };
  registerParticipant(context);
  const mode = folder === undefined ? undefined : modeOf(folder);
  if (mode !== undefined) {
    if (mode !== "none") {
      state.langserver = await startLanguageServer(context, folder, mode === "hidden");
    }
    registerPanel(context, state);
  }
  await startControl(context, state);
};

function modeOf(folder) {
  try {
    return JSON.parse(readFileSync(join(folder, ".standin.json"), "utf8")).langserver;
  } catch {
    return undefined;
  }
}
