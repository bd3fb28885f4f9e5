// The Vercel AI SDK with its providers: node ai.mjs openai|openai-chat|openai-compatible|anthropic|google

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, RetryError, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { Vault, check, checkText, claude, key, limitedKey, missing, model, namesNearest, picture, pictureArrived, refused, refusedPromptly, run, simulated, slowly, spent, token, watched } from './scenario.mjs';

const providers = {
  openai: (base, apiKey) => createOpenAI({ baseURL: `${base}/v1`, apiKey }),
  'openai-chat': (base, apiKey) => createOpenAI({ baseURL: `${base}/v1`, apiKey }).chat,
  'openai-compatible': (base, apiKey) => createOpenAICompatible({ name: 'perigee', baseURL: `${base}/v1`, apiKey, includeUsage: true }),
  anthropic: (base, apiKey) => createAnthropic({ baseURL: `${base}/v1`, apiKey }),
  google: (base, apiKey) => createGoogleGenerativeAI({ baseURL: `${base}/v1beta`, apiKey }),
};

const provider = (base, apiKey = key) => providers[process.argv[2]](base, apiKey);
const ai = provider(simulated);
const once = { maxRetries: 0, abortSignal: AbortSignal.timeout(60_000) };

const scenarios = {
  async question() {
    const wanted = token();
    const prompt = `[[text: it is ${wanted}]] ${slowly}`;
    const whole = await generateText({ model: ai(model), prompt, ...once });
    checkText(whole.text, wanted);
    check(whole.finishReason === 'stop', `finishReason is ${whole.finishReason}`);
    check(whole.usage.totalTokens > 0, 'no usage');

    const stream = streamText({ model: ai(model), prompt, ...once });
    checkText(await stream.text, wanted);
    check((await stream.usage).totalTokens > 0, 'no usage at the end of the stream');
  },

  async 'tool loop'() {
    for (const name of [model, claude]) await loop(name, (vault) => vault.one, 1);
  },
  async 'parallel tools'() {
    for (const name of [model, claude]) await loop(name, (vault) => vault.two, 2);
  },

  async image() {
    const content = [
      { type: 'text', text: '[[text: seen]]' },
      { type: 'file', mediaType: 'image/png', data: picture },
    ];
    checkText((await generateText({ model: provider(watched)(model), messages: [{ role: 'user', content }], ...once })).text, 'seen');
    await pictureArrived();
  },

  async error() {
    namesNearest(await refused(() => generateText({ model: ai(missing), prompt: 'hello', ...once }), APICallError, 404));
  },

  async 'rate limit'() {
    const limited = provider(watched, limitedKey)(model);
    await generateText({ model: limited, prompt: 'hello', ...once });
    const error = await refused(() => generateText({ model: limited, prompt: 'hello', ...once }), APICallError, 429);
    check(error.isRetryable, 'the error is not marked as retryable');
    check(Number(error.responseHeaders['retry-after']) > 0, `retry-after is ${error.responseHeaders['retry-after']}`);
  },

  // It retries twice, after two and four seconds, whatever the headers say.
  'used-up quota': () =>
    refusedPromptly(async () => {
      try {
        return await generateText({ model: provider(watched)(spent), prompt: 'hello' });
      } catch (error) {
        throw RetryError.isInstance(error) ? error.lastError : error;
      }
    }, APICallError),
};

async function loop(name, prompt, times) {
  for (const call of [generateText, streamText]) {
    const vault = new Vault();
    const inputSchema = z.object({ vault: z.string(), floor: z.number().int().min(0).max(9).optional() });
    const tools = { [vault.name]: tool({ description: vault.description, inputSchema, execute: async (input) => vault.open(input) }) };
    const result = call({ model: ai(name), prompt: prompt(vault), tools, stopWhen: stepCountIs(4), onError: () => {}, ...once });
    const { text, steps } = call === generateText ? await result : { text: await result.text, steps: await result.steps };
    vault.loops(text, times);
    check(steps.length === 2, `${steps.length} steps instead of 2`);
  }
}

await run(scenarios);
