import type { Config } from "@opencode-ai/plugin";

import type { Settings } from "./settings.js";

export const providerID = "perigee";
const defaultURL = "http://127.0.0.1:8741";
const google = "@ai-sdk/google";
const anthropic = "@ai-sdk/anthropic";

type Provider = NonNullable<Config["provider"]>[string];
// The types of the plugin package lack two members that OpenCode reads.
type ModelEntry = NonNullable<Provider["models"]>[string] & {
  provider?: { npm: string; api?: string };
  variants?: Record<string, Record<string, unknown>>;
};

// A LiveModel is a row of perigee's GET /v1beta/models. Zero limits are unknown.
export interface LiveModel {
  readonly id: string;
  readonly name: string;
  readonly context: number;
  readonly output: number;
  readonly thinking: boolean;
}

export interface Endpoint {
  readonly url: string; // without a path of an API
  readonly key: string; // empty: none
}

// endpoint is where perigee is: as the settings say, else as opencode.json says for the provider, else on this machine. A key goes only
// to the address of the same source, or to the default.
export function endpoint(settings: Pick<Settings, "url" | "key">, given: Provider | undefined): Endpoint {
  const configured = given?.options ?? {};
  const baseURL = typeof configured.baseURL === "string" ? configured.baseURL : "";
  const apiKey = typeof configured.apiKey === "string" ? configured.apiKey : "";
  if (settings.url === "" && baseURL !== "") {
    return { url: withoutPath(baseURL), key: apiKey };
  }
  const url = withoutPath(settings.url || defaultURL);
  const same = settings.url === "" || withoutPath(baseURL) === url;
  return { url, key: settings.key || (same ? apiKey : "") };
}

function withoutPath(url: string): string {
  return url.replace(/\/+$/, "").replace(/\/v1(beta)?$/, "");
}

// listModels asks perigee for the models that can answer a chat. Its errors tell the user what to do.
export async function listModels(at: Endpoint, signal: AbortSignal): Promise<LiveModel[]> {
  let response: Response;
  let list: unknown;
  try {
    const headers = { accept: "application/json", "user-agent": "perigee-opencode", ...(at.key && { authorization: `Bearer ${at.key}` }) };
    response = await fetch(`${at.url}/v1beta/models?pageSize=1000`, { headers, signal, redirect: "manual" }); // a key does not follow a redirect
    list = await response.json().catch(() => undefined);
  } catch {
    throw new Error(`perigee does not answer at ${at.url}: run "perigee serve", then start OpenCode again`);
  }
  if (response.status === 401 || response.status === 403) {
    throw new Error(`perigee at ${at.url} refuses the key: set PERIGEE_KEY to a key of its configuration`);
  }
  const rows = (list as { models?: unknown } | undefined)?.models;
  if (!response.ok || !Array.isArray(rows)) {
    throw new Error(`${at.url} does not answer like perigee (status ${response.status}): set PERIGEE_URL to its address`);
  }
  return (rows as Record<string, unknown>[]).filter(canChat).map((row) => {
    const id = String(row["name"] ?? "").replace(/^models\//, "");
    return {
      id,
      name: typeof row["displayName"] === "string" ? row["displayName"] : id,
      context: count(row["inputTokenLimit"]),
      output: count(row["outputTokenLimit"]),
      thinking: row["thinking"] === true,
    };
  }).filter((model) => model.id !== "");
}

function canChat(row: Record<string, unknown>): boolean {
  const methods = row["supportedGenerationMethods"];
  return !Array.isArray(methods) || methods.includes("generateContent");
}

function count(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}

// provider is the entry for opencode.json. What the user has configured there wins, except the address: each model gets that of the API
// which its provider package speaks, and options.baseURL would replace them all.
export function provider(models: readonly LiveModel[], at: Endpoint, given: Provider = {}): Provider {
  const { baseURL: _replaced, ...options } = given.options ?? {};
  const configured = given.models ?? {};
  const known = new Map(models.map((model) => [model.id, model]));
  const entries: Record<string, ModelEntry> = {};
  for (const id of new Set([...known.keys(), ...Object.keys(configured)])) {
    // Claude's package carries images in tool results. Everything else is closest to Gemini.
    const npm = configured[id]?.provider?.npm ?? given.npm ?? (id.startsWith("claude") ? anthropic : google);
    const api = at.url + (npm === google ? "/v1beta" : "/v1");
    const model = known.get(id);
    entries[id] = { ...(model && entry(model, npm)), ...configured[id], provider: { api, ...configured[id]?.provider, npm } };
  }
  return { name: "perigee", npm: google, ...given, options: { ...options, apiKey: at.key || "any" }, models: entries };
}

// entry is what perigee says about a model, in the words of opencode.json.
function entry(model: LiveModel, npm: string): ModelEntry {
  const sees = /^(claude|gemini)/.test(model.id);
  return {
    name: model.name,
    tool_call: true,
    reasoning: model.thinking,
    ...(model.context > 0 && model.output > 0 && { limit: { context: model.context, output: model.output } }),
    ...(sees && { attachment: true, modalities: { input: ["text", "image", "pdf"], output: ["text"] } }),
    ...(model.thinking && { variants: variants(npm) }),
  };
}

// variants are the thinking levels that OpenCode lacks for some models that have budgets only; perigee turns a level into a budget where
// the model needs one. OpenCode itself adds high, and minimal or max, to each model with reasoning.
function variants(npm: string): Record<string, Record<string, unknown>> {
  const levels = (option: (level: string) => Record<string, unknown>) => ({ low: option("low"), medium: option("medium") });
  switch (npm) {
    case google:
      return levels((thinkingLevel) => ({ thinkingConfig: { includeThoughts: true, thinkingLevel } }));
    case anthropic:
      return levels((effort) => ({ thinking: { type: "adaptive" }, effort }));
  }
  return {}; // OpenCode has all levels for the packages of OpenAI
}
