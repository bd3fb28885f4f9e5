// The Anthropic SDK: node anthropic.mjs PACKAGE, because two of its majors are in use and differ on the wire.

import { Vault, check, checkText, claude, key, limitedKey, missing, model, namesNearest, picture, pictureArrived, refused, refusedPromptly, run, simulated, slowly, spent, token, watched } from './scenario.mjs';

const { default: Anthropic } = await import(process.argv[2]);

const client = (base, apiKey = key) => new Anthropic({ baseURL: base, apiKey, maxRetries: 0, timeout: 30_000 });
const patient = new Anthropic({ baseURL: watched, apiKey: key });
const anthropic = client(simulated);

const ask = (content) => [{ role: 'user', content }];
const textOf = (message) => message.content.filter((block) => block.type === 'text').map((block) => block.text).join('');
const thinking = { type: 'enabled', budget_tokens: 1024 };

const scenarios = {
  async question() {
    const wanted = token();
    const body = { model: claude, max_tokens: 100, messages: ask(`[[text: it is ${wanted}]] ${slowly}`) };
    const whole = await anthropic.messages.create(body);
    checkText(textOf(whole), wanted);
    check(whole.stop_reason === 'end_turn', `stop_reason is ${whole.stop_reason}`);
    check(whole.usage.output_tokens > 0, 'no usage');

    const stream = anthropic.messages.stream(body);
    let deltas = '';
    stream.on('text', (delta) => (deltas += delta));
    const final = await stream.finalMessage();
    checkText(textOf(final), wanted);
    check(deltas === textOf(final), `the deltas are ${deltas}`);
    check(final.usage.output_tokens > 0, 'no usage at the end of the stream');
    check((await anthropic.messages.countTokens({ model: claude, messages: body.messages })).input_tokens > 0, 'no token count');
  },

  // With thinking, whose blocks and signatures go back with the result.
  async 'tool loop'() {
    for (const name of [model, claude]) await loop(name, (vault) => vault.one, 1, { thinking, max_tokens: 2048 });
  },
  async 'parallel tools'() {
    for (const name of [model, claude]) await loop(name, (vault) => vault.two, 2, { max_tokens: 500 });
  },

  // Two turns of one conversation; the first has two calls, one after the other.
  async dialogue() {
    const vault = new Vault();
    const tools = [{ name: vault.name, description: vault.description, input_schema: vault.schema }];
    const messages = ask(vault.twoInTurn);
    const next = async () => {
      const answer = await anthropic.messages.stream({ model: claude, max_tokens: 2048, thinking, system: 'Be brief.', messages, tools }).finalMessage();
      messages.push({ role: 'assistant', content: answer.content });
      return answer;
    };
    for (const times of [1, 2]) {
      const answer = await next();
      check(answer.stop_reason === 'tool_use', `stop_reason of answer ${times} is ${answer.stop_reason}`);
      const call = answer.content.find((block) => block.type === 'tool_use');
      messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: vault.open(call.input) }] });
    }
    checkText(textOf(await next()), vault.opened[1]);
    check(vault.opened.length === 2, `the tool was called ${vault.opened.length} times, not 2`);
    const wanted = token();
    messages.push({ role: 'user', content: `[[text: it is ${wanted}]]` });
    checkText(textOf(await next()), wanted);
  },

  async 'tool runner'() {
    const vault = new Vault();
    const tool = { type: 'custom', name: vault.name, description: vault.description, input_schema: vault.schema, run: vault.open, parse: (input) => input };
    const final = await anthropic.beta.messages.toolRunner({ model: claude, max_tokens: 500, messages: ask(vault.two), tools: [tool] });
    vault.loops(textOf(final), 2);
  },

  async image() {
    const content = [
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: picture } },
      { type: 'text', text: '[[text: seen]]' },
    ];
    const answer = await client(watched).messages.create({ model, max_tokens: 100, messages: ask(content) });
    checkText(textOf(answer), 'seen');
    await pictureArrived();
  },

  async error() {
    for (const stream of [false, true]) {
      const call = () => anthropic.messages.create({ model: missing, max_tokens: 10, messages: ask('hello'), stream });
      const error = await refused(call, Anthropic.NotFoundError, 404);
      namesNearest(error);
      check(error.error?.error?.type === 'not_found_error', `type is ${error.error?.error?.type}`);
    }
  },

  async 'rate limit'() {
    const limited = client(watched, limitedKey);
    const call = () => limited.messages.create({ model, max_tokens: 10, messages: ask('hello') });
    await call();
    const error = await refused(call, Anthropic.RateLimitError, 429);
    check(Number(error.headers.get('retry-after')) > 0, `retry-after is ${error.headers.get('retry-after')}`);
  },

  'used-up quota': () => refusedPromptly(() => patient.messages.create({ model: spent, max_tokens: 10, messages: ask('hello') }), Anthropic.RateLimitError),
};

async function loop(name, prompt, times, more) {
  const vault = new Vault();
  const tools = [{ name: vault.name, description: vault.description, input_schema: vault.schema }];
  const messages = ask(prompt(vault));
  const first = await anthropic.messages.stream({ model: name, messages, tools, ...more }).finalMessage();
  check(first.stop_reason === 'tool_use', `stop_reason is ${first.stop_reason}`);
  const results = first.content
    .filter((block) => block.type === 'tool_use')
    .map((block) => ({ type: 'tool_result', tool_use_id: block.id, content: vault.open(block.input) }));
  const last = await anthropic.messages.stream({ model: name, messages: [...messages, { role: 'assistant', content: first.content }, { role: 'user', content: results }], tools, ...more }).finalMessage();
  vault.loops(textOf(last), times);
}

await run(scenarios);
