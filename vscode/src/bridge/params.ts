import { isObject, type Json } from "../json.js";
import { badParams } from "./errors.js";

// Params reads the parameters of a request. A parameter of another type than asked for is an error of the client; parameters that are
// not asked for are ignored. null counts as absent.
export class Params {
  private readonly members: Json;

  constructor(value: unknown) {
    if (value !== undefined && !isObject(value)) {
      throw badParams("params is not an object");
    }
    this.members = value ?? {};
  }

  optionalString(name: string): string | undefined {
    const value = this.get(name);
    if (value !== undefined && typeof value !== "string") {
      throw badParams(`${name} is not a string`);
    }
    return value;
  }

  string(name: string): string {
    const value = this.optionalString(name);
    if (value === undefined) {
      throw badParams(`${name} is missing`);
    }
    return value;
  }

  nonEmpty(name: string): string {
    const value = this.string(name);
    if (value === "") {
      throw badParams(`${name} is empty`);
    }
    return value;
  }

  integer(name: string, least: number, most: number): number | undefined {
    const value = this.get(name);
    if (value === undefined) {
      return undefined;
    }
    if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most) {
      throw badParams(`${name} is not an integer from ${least} to ${most}`);
    }
    return value;
  }

  boolean(name: string): boolean {
    const value = this.get(name);
    if (value !== undefined && typeof value !== "boolean") {
      throw badParams(`${name} is not a boolean`);
    }
    return value ?? false;
  }

  oneOf<T extends string>(name: string, values: readonly T[]): T | undefined {
    const value = this.optionalString(name);
    const found = values.find((each) => each === value);
    if (value !== undefined && found === undefined) {
      throw badParams(`${name} is not one of ${values.join(", ")}`);
    }
    return found;
  }

  private get(name: string): unknown {
    return Object.hasOwn(this.members, name) ? (this.members[name] ?? undefined) : undefined;
  }
}
