import type { Plugin } from "@opencode-ai/plugin";

import { Log } from "./log.js";
import { endpoint, listModels, provider, providerID } from "./models.js";
import { Recovery, textOf } from "./recovery.js";
import { load } from "./settings.js";

const listTimeout = 3000; // OpenCode's start waits for the list
const toastDelay = 2000; // a toast before the terminal is drawn is lost

// Perigee registers perigee as a provider with the models that it has now, and repairs sessions that a provider refuses.
export const Perigee: Plugin = async ({ client }) => {
  const { settings, file, problem } = load(process.env);
  const log = new Log(client, settings);
  const recovery = new Recovery(client, settings, log);
  const tell = (message: string) => {
    log.warn(message);
    setTimeout(() => log.toast(message, "warning"), toastDelay).unref();
  };
  if (problem !== "") {
    tell(`The settings are not used: ${problem}`);
  }

  return {
    // The instance starts while this runs, so that nothing here may wait for the client.
    config: async (config) => {
      const given = config.provider?.[providerID];
      const at = endpoint(settings, given);
      try {
        const models = await listModels(at, AbortSignal.timeout(listTimeout));
        config.provider = { ...config.provider, [providerID]: provider(models, at, given) };
        log.info("models listed", { url: at.url, models: models.length, settings: file });
      } catch (error) {
        tell(textOf(error)); // opencode.json's own entry, if there is one, stays
      }
    },

    event: async ({ event }) => {
      if (!settings.session_recovery) {
        return;
      }
      if (event.type === "session.error" && event.properties.sessionID !== undefined) {
        await recovery.failed(event.properties.sessionID, event.properties.error);
      } else if (event.type === "message.updated") {
        const { info } = event.properties;
        if (info.role === "assistant" && info.time.completed !== undefined && info.error === undefined && info.finish !== "tool-calls") {
          recovery.ended(info.sessionID);
        }
      }
    },

    "experimental.chat.messages.transform": async (_input, output) => recovery.transform(output.messages),
  };
};
