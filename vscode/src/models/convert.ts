import * as vscode from "vscode";

import type { Block, Message, MessagesRequest, Model, Tool } from "./client.js";

// A limit for models that do not say theirs.
const defaultInput = 32_768;
const defaultOutput = 8_192;

// information is a model as the editor wants it.
export function information(model: Model): vscode.LanguageModelChatInformation & { isUserSelectable: boolean } {
  const textOnly = /^(gpt-oss|antigravity-agent)/.test(model.id);
  const output = model.output || defaultOutput;
  const input = model.input || defaultInput;
  return {
    id: model.id,
    name: model.name,
    family: model.id,
    version: model.version || "1",
    detail: model.owner === "" ? "perigee" : `perigee, ${model.owner}`,
    tooltip: model.description || `${model.name}, through perigee`,
    // What is listed is the context; the answer must fit into it beside the question.
    maxInputTokens: input > output ? input - output : input,
    maxOutputTokens: output,
    isUserSelectable: true, // editors before 1.110 hide models without it until the user selects them in a list
    capabilities: {
      imageInput: !textOnly,
      toolCalling: !/image/.test(model.id) && !model.id.startsWith("antigravity-agent"),
    },
  };
}

// roleSystem is the value that editors use for system messages; the type is not in the stable API.
const roleSystem = 3;

// Parameters of modelOptions that travel, by their names in the Messages API.
const parameters: Readonly<Record<string, string>> = {
  temperature: "temperature",
  top_p: "top_p",
  topP: "top_p",
  top_k: "top_k",
  topK: "top_k",
  stop: "stop_sequences",
  stop_sequences: "stop_sequences",
  max_tokens: "max_tokens",
  maxTokens: "max_tokens",
};

// request is the whole request of a chat. Parts that cannot travel are named to dropped.
export function request(
  model: vscode.LanguageModelChatInformation,
  messages: readonly vscode.LanguageModelChatRequestMessage[],
  options: vscode.ProvideLanguageModelChatResponseOptions,
  dropped: (what: string) => void,
): MessagesRequest {
  const system: string[] = [];
  const turns: Message[] = [];
  for (const message of messages) {
    if ((message.role as number) === roleSystem) {
      system.push(plainText(message.content));
      continue;
    }
    const role = message.role === vscode.LanguageModelChatMessageRole.Assistant ? "assistant" : "user";
    const content = blocks(message.content, dropped);
    const last = turns.at(-1);
    if (content.length === 0) {
      continue;
    }
    if (last?.role === role) {
      last.content.push(...content); // the results of parallel calls belong into one message
    } else {
      turns.push({ role, content });
    }
  }
  for (const turn of turns) {
    // The API wants the results of tools before other content.
    turn.content = [...turn.content.filter(isResult), ...turn.content.filter((block) => !isResult(block))];
  }
  const body: MessagesRequest = { model: model.id, max_tokens: model.maxOutputTokens, messages: turns };
  if (system.length > 0) {
    body.system = system.join("\n\n");
  }
  for (const [name, value] of Object.entries(options.modelOptions ?? {})) {
    const parameter = parameters[name];
    if (parameter === undefined) {
      dropped(`the option ${name}`);
    } else {
      body[parameter] = parameter === "stop_sequences" && typeof value === "string" ? [value] : value;
    }
  }
  const tools = (options.tools ?? []).map(tool);
  if (tools.length > 0) {
    body.tools = tools;
    body.tool_choice = { type: options.toolMode === vscode.LanguageModelChatToolMode.Required ? "any" : "auto" };
  }
  return body;
}

// countable is a message, or a text, in a form whose tokens can be counted whatever its role is.
export function countable(what: string | vscode.LanguageModelChatRequestMessage): Message[] {
  if (typeof what === "string") {
    return [{ role: "user", content: [{ type: "text", text: what }] }];
  }
  const content: Block[] = [];
  for (const block of blocks(what.content, () => undefined)) {
    switch (block.type) {
      case "tool_use":
        content.push({ type: "text", text: `${block.name} ${JSON.stringify(block.input)}` });
        break;
      case "tool_result":
        content.push(...block.content);
        break;
      default:
        content.push(block);
    }
  }
  return content.length === 0 ? [] : [{ role: "user", content }];
}

function tool(declared: vscode.LanguageModelChatTool): Tool {
  return {
    name: declared.name,
    description: declared.description,
    input_schema: declared.inputSchema ?? { type: "object", properties: {} },
  };
}

function isResult(block: Block): boolean {
  return block.type === "tool_result";
}

function blocks(parts: readonly unknown[], dropped: (what: string) => void): Block[] {
  const found: Block[] = [];
  for (const part of parts) {
    if (part instanceof vscode.LanguageModelTextPart) {
      if (part.value !== "") {
        found.push({ type: "text", text: part.value });
      }
    } else if (part instanceof vscode.LanguageModelToolCallPart) {
      found.push({ type: "tool_use", id: part.callId, name: part.name, input: part.input ?? {} });
    } else if (part instanceof vscode.LanguageModelToolResultPart) {
      const content = blocks(part.content, dropped);
      found.push({ type: "tool_result", tool_use_id: part.callId, content });
    } else if (part instanceof vscode.LanguageModelPromptTsxPart) {
      found.push({ type: "text", text: typeof part.value === "string" ? part.value : JSON.stringify(part.value) });
    } else if (isData(part)) {
      const block = dataBlock(part, dropped);
      if (block) {
        found.push(block);
      }
    } else {
      dropped("a part of a kind that is not known here");
    }
  }
  return found;
}

interface DataPart {
  readonly mimeType: string;
  readonly data: Uint8Array;
}

// isData does not ask for the class, which editors before 1.105 do not have.
function isData(part: unknown): part is DataPart {
  const data = part as Partial<DataPart> | null;
  return typeof data === "object" && data !== null && typeof data.mimeType === "string" && data.data instanceof Uint8Array;
}

// Marks of the editor's own agent, which are not content.
const marks = new Set(["cache_control", "stateful_marker", "thinking", "context_management", "phase_data"]);

function dataBlock(part: DataPart, dropped: (what: string) => void): Block | undefined {
  if (/^image\//.test(part.mimeType)) {
    return { type: "image", source: { type: "base64", media_type: part.mimeType, data: Buffer.from(part.data).toString("base64") } };
  }
  if (/^text\/|^application\/(.*\+)?json\b/.test(part.mimeType)) {
    const text = new TextDecoder().decode(part.data);
    return text === "" ? undefined : { type: "text", text };
  }
  if (!marks.has(part.mimeType)) {
    dropped(`data of type ${part.mimeType}`);
  }
  return undefined;
}

function plainText(parts: readonly unknown[]): string {
  return blocks(parts, () => undefined)
    .map((block) => (block.type === "text" ? block.text : ""))
    .join("");
}
