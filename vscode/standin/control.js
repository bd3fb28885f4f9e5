// A control server for tests: POST /ACTION with a JSON body runs the action in this extension host.
"use strict";

const { once } = require("node:events");
const { renameSync, rmSync, writeFileSync } = require("node:fs");
const { createServer } = require("node:http");
const { join } = require("node:path");
const vscode = require("vscode");

const { converse } = require("./chat.js");

exports.startControl = async (context, state) => {
  const directory = process.env.STANDIN_DIR;
  if (!directory) {
    return;
  }
  const server = createServer(async (request, response) => {
    try {
      let body = "";
      for await (const chunk of request) {
        body += chunk;
      }
      const result = await actions[request.url.slice(1)](JSON.parse(body || "{}"), state);
      response.end(JSON.stringify(result ?? null));
    } catch (error) {
      response.writeHead(500).end(JSON.stringify({ error: String(error.message ?? error), code: error.code }));
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const file = join(directory, `${process.pid}.json`);
  const announced = { pid: process.pid, port: server.address().port, folder: state.folder, langserver: state.langserver?.pid ?? 0 };
  writeFileSync(`${file}.new`, JSON.stringify(announced));
  renameSync(`${file}.new`, file);
  context.subscriptions.push({ dispose: () => (rmSync(file, { force: true }), server.close()) });
};

const selected = async (id) => (await vscode.lm.selectChatModels({ vendor: "perigee", ...(id ? { id } : {}) })) ?? [];

const actions = {
  prompts: (_, state) => state.prompts,
  command: ({ id, args = [] }) => vscode.commands.executeCommand(id, ...args),
  commands: () => vscode.commands.getCommands(true),
  configure: ({ key, value }) => vscode.workspace.getConfiguration().update(key, value, vscode.ConfigurationTarget.Global),
  models: async () => (await selected()).map(({ id, name, family, maxInputTokens }) => ({ id, name, family, maxInputTokens })),
  converse: async ({ model, prompt }) => {
    const source = new vscode.CancellationTokenSource();
    const [chosen] = await selected(model);
    return converse(chosen, prompt, () => undefined, source.token);
  },
  // Cancels an answer after its first piece, and says how many more came.
  cancel: async ({ model, prompt }) => {
    const source = new vscode.CancellationTokenSource();
    const [chosen] = await selected(model);
    const response = await chosen.sendRequest([vscode.LanguageModelChatMessage.User(prompt)], {}, source.token);
    let pieces = 0;
    try {
      for await (const _ of response.stream) {
        pieces++;
        source.cancel();
      }
    } catch (error) {
      return { pieces, error: error.message };
    }
    return { pieces };
  },
  count: async ({ model, text }) => (await selected(model))[0].countTokens(text),
  tools: () => vscode.lm.tools.map((tool) => tool.name),
  invoke: async ({ name, input }) => {
    const result = await vscode.lm.invokeTool(name, { input, toolInvocationToken: undefined });
    return result.content.map((part) => part.value ?? "");
  },
};
