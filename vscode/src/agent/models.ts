import { booleanAt, isObject, listAt, numberAt, objectAt, stringAt, type Json } from "../json.js";

// A Model is one that the language server offers.
export interface Model {
  readonly id: string; // of the cloud; empty: unknown
  readonly label: string;
  readonly value: string | number; // of the enum in requests: its name or its number
  readonly recommended: boolean;
  readonly spent: boolean; // nothing is left of its quota
}

// availableModels reads the answer of GetAvailableModels, a map by id within one of several members. The default comes first.
export function availableModels(answer: Json): Model[] {
  for (const from of [objectAt(answer, "response"), objectAt(answer, "availableModels"), answer]) {
    const first = stringAt(from, "defaultAgentModelId");
    const models = Object.entries(objectAt(from, "models")).flatMap(([id, entry]) => modelOf(id, entry));
    if (models.length > 0) {
      return [...models.filter((model) => model.id === first), ...models.filter((model) => model.id !== first)];
    }
  }
  return [];
}

// configuredModels reads the answers of GetCascadeModelConfigs and GetUserStatus.
export function configuredModels(answer: Json): Model[] {
  const status = objectAt(answer, "userStatus", "cascadeModelConfigData");
  return [...listAt(answer, "clientModelConfigs"), ...listAt(status, "clientModelConfigs")].flatMap((entry) => modelOf("", entry));
}

function modelOf(id: string, entry: unknown): Model[] {
  const value = enumAt(entry, "model") ?? enumAt(objectAt(entry, "modelOrAlias"), "model");
  if (!isObject(entry) || value === undefined || booleanAt(entry, "disabled")) {
    return [];
  }
  const label = stringAt(entry, "label") || stringAt(entry, "displayName") || id;
  const recommended = booleanAt(entry, "isRecommended") || booleanAt(entry, "recommended");
  return [{ id, label, value, recommended, spent: isSpent(objectAt(entry, "quotaInfo")) }];
}

function enumAt(value: unknown, name: string): string | number | undefined {
  return numberAt(value, name) ?? (stringAt(value, name) || undefined);
}

// isSpent reads a quota. JSON leaves out a remainder of 0; without a time, too, the quota is unknown.
function isSpent(quota: Json): boolean {
  const left = numberAt(quota, "remainingFraction");
  return left === undefined ? stringAt(quota, "resetTime") !== "" : left <= 0;
}

// nameOf is the id of the cloud, or one made of the label: "gemini-3-flash" of "Gemini 3 Flash".
export function nameOf(model: Model): string {
  return model.id || model.label.toLowerCase().split(/[^.a-z0-9]+/).filter(Boolean).join("-") || String(model.value);
}

// chooseModel returns the model of a name, which is an id, a label or a value of the enum. Without a name it is of those that are
// recommended, or else of all, one that has quota left, a Flash model first.
export function chooseModel(models: readonly Model[], name: string | undefined): Model | undefined {
  if (name !== undefined && name !== "") {
    const lower = name.toLowerCase();
    return models.find((model) => [nameOf(model), model.label, String(model.value)].some((each) => each.toLowerCase() === lower));
  }
  const score = (model: Model) => (model.spent ? 0 : 4) + (model.recommended ? 2 : 0) + (/flash/i.test(model.label + model.id) ? 1 : 0);
  return models.toSorted((a, b) => score(b) - score(a))[0];
}
