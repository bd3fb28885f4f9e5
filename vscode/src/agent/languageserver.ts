import { randomUUID } from "node:crypto";

import { listAt, numberAt, objectAt, stringAt, type Json } from "../json.js";
import { call, CallError, type Endpoint } from "./call.js";
import { availableModels, configuredModels, type Model } from "./models.js";
import { enumName, isPrompt, runStatuses } from "./steps.js";

const limits = { control: 5_000, read: 30_000, send: 300_000 };
const maxPages = 200;

// A Reading is what a conversation looks like at one time.
export interface Reading {
  readonly status: string; // a name of runStatuses; "": unknown
  readonly first: number; // the index of steps[0]
  readonly steps: readonly unknown[]; // to the end
  readonly executor: Json; // the last one
}

// A Summary is a line of the list of conversations.
export interface Summary {
  readonly id: string;
  readonly title: string;
  readonly workspace: string; // a URI
  readonly modified: string;
  readonly status: string;
  readonly steps: number;
}

export interface SendOptions {
  readonly readOnly: boolean;
  readonly known: number; // steps of the conversation before
  readonly signal: AbortSignal; // ends the wait for the answer
}

// A LanguageServer makes the calls that asks need. Answers may lack any member.
export class LanguageServer {
  constructor(
    private readonly locate: (stale: boolean) => Promise<Endpoint | undefined>,
    private readonly ideVersion = "", // empty: requests name none
  ) {}

  // models returns the models that are enabled. Versions differ in which method they have.
  async models(): Promise<Model[]> {
    const found: Model[] = [];
    for (const method of ["GetCascadeModelConfigs", "GetAvailableModels", "GetUserStatus"]) {
      try {
        const answer = await this.call(method, this.metadata(), limits.read);
        found.push(...(method === "GetAvailableModels" ? availableModels(answer) : configuredModels(answer)));
      } catch (error) {
        if (!(error instanceof CallError) || error.kind !== "answered") {
          throw error;
        }
      }
      if (method !== "GetCascadeModelConfigs" && found.length > 0) {
        break;
      }
    }
    return found;
  }

  // start creates a conversation and returns its id. It can be repeated, because the id is chosen here.
  async start(): Promise<string> {
    const id = randomUUID();
    const source = "CORTEX_TRAJECTORY_SOURCE_CASCADE_CLIENT";
    const request = { cascadeId: id, source, trajectoryType: "CORTEX_TRAJECTORY_TYPE_CASCADE", ...this.metadata() };
    try {
      return stringAt(await this.call("StartCascade", request, limits.read), "cascadeId") || id;
    } catch (error) {
      if (error instanceof CallError && error.kind === "unclear") {
        return stringAt(await this.call("StartCascade", request, limits.read), "cascadeId") || id;
      }
      throw error;
    }
  }

  // send adds a message to a conversation, once. It returns true if the message is known to be there, and false if there was no answer
  // and the message was not found among the later steps.
  async send(conversation: string, prompt: string, model: Model, options: SendOptions): Promise<boolean> {
    const request = { cascadeId: conversation, items: [{ text: prompt }], cascadeConfig: turnConfig(model, options.readOnly), ...this.metadata() };
    try {
      await this.call("SendUserCascadeMessage", request, limits.send, options.signal);
      return true;
    } catch (error) {
      if (!(error instanceof CallError) || error.kind !== "unclear") {
        throw error;
      }
    }
    for (const pause of options.signal.aborted ? [] : [0, 200, 1_000]) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      const reading = await this.read(conversation, options.known, options.signal).catch(() => undefined);
      if (reading?.steps.some((step) => isPrompt(step, prompt)) === true) {
        return true;
      }
    }
    return false;
  }

  // read returns a conversation with its steps from an index on. Long ones come in several answers.
  async read(conversation: string, from: number, signal?: AbortSignal): Promise<Reading> {
    const answer = await this.call("GetCascadeTrajectory", { cascadeId: conversation }, limits.read, signal);
    const trajectory = objectAt(answer, "trajectory");
    const head = listAt(trajectory, "steps");
    const total = numberAt(answer, "numTotalSteps") ?? head.length;
    const steps = head.slice(from);
    for (let page = 0; from + steps.length < total && page < maxPages; page++) {
      const request = { cascadeId: conversation, stepOffset: from + steps.length };
      const more = listAt(await this.call("GetCascadeTrajectorySteps", request, limits.read, signal), "steps");
      if (more.length === 0) {
        break;
      }
      steps.push(...more);
    }
    const executor = listAt(trajectory, "executorMetadatas").at(-1);
    return { status: enumName(answer["status"], runStatuses), first: from, steps, executor: objectAt(executor) };
  }

  // load makes a stored conversation known to a language server that was started anew.
  async load(conversation: string): Promise<void> {
    await this.call("LoadTrajectory", { cascadeId: conversation }, limits.read);
  }

  async cancel(conversation: string): Promise<void> {
    await this.call("CancelCascadeInvocation", { cascadeId: conversation }, limits.control);
  }

  // focus shows a conversation in the IDE.
  async focus(conversation: string): Promise<void> {
    await this.call("SmartFocusConversation", { cascadeId: conversation }, limits.control);
  }

  // conversations returns all of them, the last modified first.
  async conversations(): Promise<Summary[]> {
    const answer = await this.call("GetAllCascadeTrajectories", {}, limits.read);
    const all = Object.entries(objectAt(answer, "trajectorySummaries")).map(([id, summary]) => ({
      id,
      title: stringAt(objectAt(summary, "annotations"), "title") || stringAt(summary, "summary"),
      workspace: stringAt(listAt(summary, "workspaces")[0], "workspaceFolderAbsoluteUri"),
      modified: stringAt(summary, "lastModifiedTime"),
      status: listAt(summary, "waitingSteps").length > 0 ? "waiting" : enumName(objectAt(summary)["status"], runStatuses).toLowerCase(),
      steps: numberAt(summary, "stepCount") ?? 0,
    }));
    return all.sort((a, b) => (Date.parse(b.modified) || 0) - (Date.parse(a.modified) || 0));
  }

  // metadata is what the first generation of language servers wants to know.
  private metadata(): Json {
    return this.ideVersion === "" ? {} : { metadata: { ideName: "antigravity", extensionName: "antigravity", ideVersion: this.ideVersion, locale: "en" } };
  }

  // call searches the language server again, once, if it is not reached or does not accept the token: nothing was done by then.
  private async call(method: string, request: Json, limit: number, signal?: AbortSignal): Promise<Json> {
    for (let stale = false; ; stale = true) {
      const endpoint = await this.locate(stale);
      if (endpoint === undefined) {
        throw new CallError("unsent", "the language server of this window was not found");
      }
      try {
        return await call(endpoint, method, request, { limit, signal });
      } catch (error) {
        if (stale || signal?.aborted === true || !(error instanceof CallError) || (error.kind !== "unsent" && error.kind !== "token")) {
          throw error;
        }
      }
    }
  }
}

// turnConfig is the configuration of a turn. The agent never runs a command without a question.
function turnConfig(model: Model, readOnly: boolean): Json {
  return {
    plannerConfig: {
      conversational: { plannerMode: `CONVERSATIONAL_PLANNER_MODE_${readOnly ? "READ_ONLY" : "DEFAULT"}` },
      planModel: model.value,
      requestedModel: { model: model.value },
      toolConfig: { runCommand: { autoCommandConfig: { autoExecutionPolicy: "CASCADE_COMMANDS_AUTO_EXECUTION_OFF" } } },
    },
  };
}
