// Readers of JSON whose shape is not known for certain. A member that is missing or of another type has the empty value.

export type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function objectAt(value: unknown, ...names: string[]): Json {
  let at = value;
  for (const name of names) {
    at = isObject(at) ? at[name] : undefined;
  }
  return isObject(at) ? at : {};
}

export function stringAt(value: unknown, name: string): string {
  const member = isObject(value) ? value[name] : undefined;
  return typeof member === "string" ? member : "";
}

export function listAt(value: unknown, name: string): unknown[] {
  const member = isObject(value) ? value[name] : undefined;
  return Array.isArray(member) ? member : [];
}

export function booleanAt(value: unknown, name: string): boolean {
  return isObject(value) && value[name] === true;
}

// numberAt also reads numbers in strings, as the JSON of 64-bit integers has them.
export function numberAt(value: unknown, name: string): number | undefined {
  const member = isObject(value) ? value[name] : undefined;
  const number = typeof member === "string" && member.trim() !== "" ? Number(member) : member;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

export function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
