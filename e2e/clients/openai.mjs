// The OpenAI SDK: node openai.mjs chat|responses

import OpenAI from 'openai';
import { Vault, check, checkText, key, limitedKey, missing, model, namesNearest, picture, pictureArrived, refused, refusedPromptly, run, simulated, slowly, spent, token, watched } from './scenario.mjs';

const client = (base, apiKey = key) => new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0, timeout: 30_000 });
const patient = new OpenAI({ baseURL: `${watched}/v1`, apiKey: key });
const openai = client(simulated);

const ask = (content) => [{ role: 'user', content }];
const image = `data:image/png;base64,${picture}`;

const chat = {
  async question() {
    const wanted = token();
    const messages = ask(`[[text: it is ${wanted}]] ${slowly}`);
    const whole = await openai.chat.completions.create({ model, messages });
    checkText(whole.choices[0].message.content, wanted);
    check(whole.choices[0].finish_reason === 'stop', `finish_reason is ${whole.choices[0].finish_reason}`);
    check(whole.usage.total_tokens > 0, 'no usage');

    const stream = openai.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
    let deltas = '';
    stream.on('content', (delta) => (deltas += delta));
    const final = await stream.finalChatCompletion();
    checkText(final.choices[0].message.content, wanted);
    check(deltas === final.choices[0].message.content, `the deltas are ${deltas}`);
    check((await stream.totalUsage()).total_tokens > 0, 'no usage at the end of the stream');
  },

  'tool loop': () => chatLoop((vault) => vault.one, 1, true),
  'parallel tools': async () => {
    await chatLoop((vault) => vault.two, 2, true);
    await chatLoop((vault) => vault.two, 2, false);
  },

  async image() {
    const answer = await client(watched).chat.completions.create({
      model,
      messages: ask([
        { type: 'text', text: '[[text: seen]]' },
        { type: 'image_url', image_url: { url: image } },
      ]),
    });
    checkText(answer.choices[0].message.content, 'seen');
    await pictureArrived();
  },

  async error() {
    const messages = ask('hello');
    for (const stream of [false, true]) {
      const error = await refused(() => openai.chat.completions.create({ model: missing, messages, stream }), OpenAI.NotFoundError, 404);
      namesNearest(error);
      check(error.code === 'not_found', `code is ${error.code}`);
    }
  },

  'rate limit': () => limited((limitedClient) => limitedClient.chat.completions.create({ model, messages: ask('hello') })),
  'used-up quota': () => refusedPromptly(() => patient.chat.completions.create({ model: spent, messages: ask('hello') }), OpenAI.RateLimitError),
};

async function chatLoop(prompt, times, stream) {
  const vault = new Vault();
  const runner = openai.chat.completions.runTools({
    model,
    stream,
    messages: ask(prompt(vault)),
    tools: [{ type: 'function', function: { name: vault.name, description: vault.description, parameters: vault.schema, parse: JSON.parse, function: vault.open } }],
  });
  vault.loops(await runner.finalContent(), times);
  check(runner.allChatCompletions().length === 2, `${runner.allChatCompletions().length} requests instead of 2`);
}

const responses = {
  async question() {
    const wanted = token();
    const input = `[[text: it is ${wanted}]] ${slowly}`;
    const whole = await openai.responses.create({ model, input });
    checkText(whole.output_text, wanted);
    check(whole.status === 'completed', `status is ${whole.status}`);
    check(whole.usage.total_tokens > 0, 'no usage');

    const stream = openai.responses.stream({ model, input });
    let deltas = '';
    stream.on('response.output_text.delta', (event) => (deltas += event.delta));
    const final = await stream.finalResponse();
    checkText(final.output_text, wanted);
    check(deltas === final.output_text, `the deltas are ${deltas}`);
    check(final.usage.total_tokens > 0, 'no usage at the end of the stream');
  },

  // The loop that keeps its history at the server.
  async 'tool loop'() {
    const vault = new Vault();
    const first = await openai.responses.stream({ model, input: vault.one, tools: vaultTools(vault), reasoning: { summary: 'auto' } }).finalResponse();
    const input = callsOf(first).map((call) => resultOf(call, vault));
    const last = await openai.responses.stream({ model, input, tools: vaultTools(vault), previous_response_id: first.id }).finalResponse();
    vault.loops(last.output_text, 1);
  },

  // The loop that sends everything again, as agents do.
  async 'parallel tools'() {
    for (const ask of [(body) => openai.responses.create(body), (body) => openai.responses.stream(body).finalResponse()]) {
      const vault = new Vault();
      const common = { model, tools: vaultTools(vault), store: false, include: ['reasoning.encrypted_content'] };
      const prompt = { role: 'user', content: vault.two };
      const first = await ask({ ...common, input: [prompt] });
      check(callsOf(first).length === 2, `${callsOf(first).length} calls in one reply instead of 2`);
      const results = callsOf(first).map((call) => resultOf(call, vault));
      // The library adds a member to the calls of a stream, which the API refuses.
      const output = first.output.map(({ parsed_arguments: _, ...item }) => item);
      const last = await ask({ ...common, input: [prompt, ...output, ...results] });
      vault.loops(last.output_text, 2);
    }
  },

  async image() {
    const content = [
      { type: 'input_text', text: '[[text: seen]]' },
      { type: 'input_image', image_url: image, detail: 'auto' },
    ];
    const answer = await client(watched).responses.create({ model, input: [{ role: 'user', content }] });
    checkText(answer.output_text, 'seen');
    await pictureArrived();
  },

  async error() {
    for (const stream of [false, true]) {
      const error = await refused(() => openai.responses.create({ model: missing, input: 'hello', stream }), OpenAI.NotFoundError, 404);
      namesNearest(error);
      check(error.code === 'not_found', `code is ${error.code}`);
    }
  },

  'rate limit': () => limited((limitedClient) => limitedClient.responses.create({ model, input: 'hello' })),
  'used-up quota': () => refusedPromptly(() => patient.responses.create({ model: spent, input: 'hello' }), OpenAI.RateLimitError),
};

const vaultTools = (vault) => [{ type: 'function', name: vault.name, description: vault.description, parameters: vault.schema, strict: false }];
const callsOf = (response) => response.output.filter((item) => item.type === 'function_call');
const resultOf = (call, vault) => ({ type: 'function_call_output', call_id: call.call_id, output: vault.open(call.arguments) });

async function limited(call) {
  const limitedClient = client(watched, limitedKey);
  await call(limitedClient);
  const error = await refused(() => call(limitedClient), OpenAI.RateLimitError, 429);
  check(Number(error.headers.get('retry-after')) > 0, `retry-after is ${error.headers.get('retry-after')}`);
}

await run({ chat, responses }[process.argv[2]]);
