// The OpenAI SDK, asking for responses over a WebSocket.

import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { Vault, check, checkText, key, limitedKey, missing, model, namesNearest, picture, pictureArrived, run, simulated, token, watched } from './scenario.mjs';

// talk opens a socket for a conversation, and closes it at the end.
async function talk(base, conversation, apiKey = key) {
  const ws = new ResponsesWS(new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0, timeout: 30_000 }));
  const events = ws.stream();
  try {
    await conversation(new Talk(ws, events));
  } finally {
    await events.return?.();
    ws.close();
  }
}

class Talk {
  constructor(ws, events) {
    this.ws = ws;
    this.events = events;
  }

  create(body) {
    this.ws.send({ type: 'response.create', model, store: false, ...body });
  }

  // next returns the next message; errors are thrown.
  async next() {
    for (;;) {
      const { value: event, done } = await this.events.next();
      check(!done && event.type !== 'close', 'the socket was closed');
      if (event.type === 'error') throw event.error;
      if (event.type === 'message') return event.message;
    }
  }

  // completed returns a response and the text of its deltas.
  async completed(stream) {
    let deltas = '';
    for (;;) {
      const message = await this.next();
      check(message.stream_id === stream, `an event of stream ${message.stream_id} among those of ${stream}`);
      check(message.type !== 'response.failed' && message.type !== 'response.incomplete', JSON.stringify(message));
      if (message.type === 'response.output_text.delta') deltas += message.delta;
      if (message.type === 'response.completed') return { ...message.response, deltas };
    }
  }

  // refused returns the error that is told next.
  async refused(status, code) {
    try {
      await this.next();
    } catch (error) {
      check(error.error?.status === status, `expected status ${status}, got ${JSON.stringify(error.error)}`);
      check(error.error.error.code === code, `code is ${error.error.error.code}`);
      return error;
    }
    throw new Error('expected an error, got an event');
  }
}

const textOf = (response) => response.output.flatMap((item) => (item.type === 'message' ? item.content.map((part) => part.text) : [])).join('');
const tools = (vault) => [{ type: 'function', name: vault.name, description: vault.description, parameters: vault.schema, strict: false }];
const callsOf = (response) => response.output.filter((item) => item.type === 'function_call');
const resultOf = (call, vault) => ({ type: 'function_call_output', call_id: call.call_id, output: vault.open(call.arguments) });

await run({
  question: () =>
    talk(simulated, async (t) => {
      const wanted = token();
      t.create({ input: `[[text: it is ${wanted}]]` });
      const response = await t.completed();
      checkText(textOf(response), wanted);
      check(response.deltas === textOf(response), `the deltas are ${response.deltas}`);
      check(response.usage.total_tokens > 0, 'no usage');
    }),

  // Each turn sends only what is new, after a first one for which nothing is made; nothing is stored.
  'tool loop': () =>
    talk(simulated, async (t) => {
      const vault = new Vault();
      t.create({ generate: false, input: [{ role: 'user', content: vault.one }], tools: tools(vault) });
      const warm = await t.completed();
      check(warm.output.length === 0, 'something was made');
      t.create({ input: [], tools: tools(vault), previous_response_id: warm.id });
      const first = await t.completed();
      t.create({ input: callsOf(first).map((call) => resultOf(call, vault)), tools: tools(vault), previous_response_id: first.id });
      vault.loops(textOf(await t.completed()), 1);
      t.create({ input: 'hello', previous_response_id: first.id });
      await t.refused(400, 'previous_response_not_found');
    }),

  // Two streams on one socket; the second goes on from what the first has said.
  'parallel tools': () =>
    talk(simulated, async (t) => {
      const vault = new Vault();
      t.create({ stream_id: 'main', input: vault.two, tools: tools(vault) });
      const first = await t.completed('main');
      check(callsOf(first).length === 2, `${callsOf(first).length} calls in one reply instead of 2`);
      const input = callsOf(first).map((call) => resultOf(call, vault));
      for (const stream_id of ['fork', 'main']) {
        t.create({ stream_id, input, tools: tools(vault), previous_response_id: first.id });
        vault.loops(textOf(await t.completed(stream_id)), 2);
      }
    }),

  image: () =>
    talk(watched, async (t) => {
      const image_url = `data:image/png;base64,${picture}`;
      t.create({ input: [{ role: 'user', content: [{ type: 'input_text', text: '[[text: seen]]' }, { type: 'input_image', image_url, detail: 'auto' }] }] });
      checkText(textOf(await t.completed()), 'seen');
      await pictureArrived();
    }),

  error: () =>
    talk(simulated, async (t) => {
      t.create({ model: missing, input: 'hello' });
      namesNearest(await t.refused(404, 'not_found'));
      t.create({ input: '[[text: still here]]' });
      checkText(textOf(await t.completed()), 'still here');
    }),

  'rate limit': () =>
    talk(
      watched,
      async (t) => {
        t.create({ input: 'hello' });
        await t.completed();
        t.create({ input: 'hello' });
        const { error } = await t.refused(429, 'rate_limit_exceeded');
        check(Number(error.headers['retry-after']) > 0, `retry-after is ${error.headers['retry-after']}`);
      },
      limitedKey,
    ),
});
