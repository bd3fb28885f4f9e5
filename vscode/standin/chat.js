// A participant of the Chat view, @standin: it asks the model that is selected there, and runs the tool that the model calls.
"use strict";

const vscode = require("vscode");

const lookup = {
  name: "lookup",
  description: "Looks a word up",
  inputSchema: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
};

exports.registerParticipant = (context) => {
  const participant = vscode.chat.createChatParticipant("perigee-test.standin", async (request, _, stream, token) => {
    await converse(request.model, request.prompt, (text) => stream.markdown(text), token);
  });
  context.subscriptions.push(participant);
};

// converse has a model answer, with as many calls of the tool as it makes, and returns what happened.
async function converse(model, prompt, show, token) {
  const messages = [vscode.LanguageModelChatMessage.User(prompt)];
  const texts = [];
  const calls = [];
  for (let turn = 0; turn < 5; turn++) {
    const response = await model.sendRequest(messages, { tools: [lookup] }, token);
    const parts = [];
    const results = [];
    for await (const part of response.stream) {
      parts.push(part);
      if (part instanceof vscode.LanguageModelTextPart) {
        texts.push(part.value);
        show(part.value);
      } else if (part instanceof vscode.LanguageModelToolCallPart) {
        calls.push({ name: part.name, input: part.input });
        const found = new vscode.LanguageModelTextPart(`the word ${part.input.word} means ${String(part.input.word).split("").reverse().join("")}`);
        results.push(new vscode.LanguageModelToolResultPart(part.callId, [found]));
      }
    }
    if (results.length === 0) {
      break;
    }
    messages.push(vscode.LanguageModelChatMessage.Assistant(parts), vscode.LanguageModelChatMessage.User(results));
  }
  return { texts, calls };
}
exports.converse = converse;
