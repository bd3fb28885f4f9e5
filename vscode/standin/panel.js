// The commands of the IDE's agent panel, as strict as the real ones: see each.
"use strict";

const { randomUUID } = require("node:crypto");
const vscode = require("vscode");

// A new conversation is the visible one only after this time; a prompt that comes earlier goes into the old one.
const newConversationTakes = 300;

exports.registerPanel = (context, state) => {
  let visible;
  const register = (name, run) => context.subscriptions.push(vscode.commands.registerCommand(`antigravity.${name}`, run));

  register("startNewConversation", () => {
    setTimeout(() => (visible = undefined), newConversationTakes);
  });
  // Submits the text. There is no result, and an object is shown as String writes it.
  register("sendPromptToAgentPanel", async (text) => {
    const prompt = String(text);
    state.prompts.push(prompt);
    visible = await submit(state.langserver, visible, prompt);
  });
  register("setVisibleConversation", (id) => {
    visible = id;
  });
  register("agentPanel.open", () => undefined);
  register("agentPanel.focus", () => undefined);
  register("sendTextToChat", () => undefined); // has no effect
  register("getManagerTrace", () => undefined); // a performance trace, if the manager is open
  register("getDiagnostics", async () => diagnostics(state));
};

async function submit(langserver, conversation, prompt) {
  if (langserver === undefined) {
    return conversation ?? randomUUID();
  }
  let id = conversation;
  if (id === undefined) {
    const request = { source: "CORTEX_TRAJECTORY_SOURCE_CASCADE_CLIENT", trajectoryType: "CORTEX_TRAJECTORY_TYPE_CASCADE" };
    id = (await langserver.call("StartCascade", request)).cascadeId;
  }
  const status = await langserver.call("GetUserStatus", {});
  const models = status.userStatus?.cascadeModelConfigData?.clientModelConfigs ?? [];
  const model = models[0]?.modelOrAlias?.model;
  const cascadeConfig = { plannerConfig: { conversational: {}, planModel: model, requestedModel: { model } } };
  await langserver.call("SendUserCascadeMessage", { cascadeId: id, items: [{ text: prompt }], cascadeConfig });
  return id;
}

// diagnostics is a JSON text with the ten newest conversations among much else, without their texts.
async function diagnostics(state) {
  const answer = state.langserver === undefined ? {} : await state.langserver.call("GetAllCascadeTrajectories", {});
  const recentTrajectories = Object.entries(answer.trajectorySummaries ?? {})
    .map(([googleAgentId, { trajectoryId, summary, stepCount, lastModifiedTime }]) => ({
      googleAgentId,
      trajectoryId,
      summary,
      lastStepIndex: (stepCount ?? 0) - 1,
      lastModifiedTime,
    }))
    .sort((a, b) => Date.parse(b.lastModifiedTime) - Date.parse(a.lastModifiedTime))
    .slice(0, 10);
  return JSON.stringify({
    isRemote: false,
    systemInfo: { operatingSystem: "linux", timestamp: new Date().toISOString(), userEmail: "ada@example.com", userName: "Ada" },
    userSettings: {},
    extensionLogs: ["a line of the log ".repeat(4000)],
    languageServerLogs: { logs: [] },
    recentTrajectories,
  });
}
