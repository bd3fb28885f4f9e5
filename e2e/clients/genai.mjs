// The Google Gen AI SDK.

import { ApiError, GoogleGenAI } from '@google/genai';
import { Vault, check, checkText, key, limitedKey, missing, model, namesNearest, older, picture, pictureArrived, refused, refusedPromptly, run, simulated, slowly, spent, token, watched } from './scenario.mjs';

const client = (base, apiKey = key) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: base, timeout: 30_000 } });
const genai = client(simulated);

const scenarios = {
  async question() {
    const wanted = token();
    const contents = `[[text: it is ${wanted}]] ${slowly}`;
    const whole = await genai.models.generateContent({ model, contents });
    checkText(whole.text, wanted);
    check(whole.candidates[0].finishReason === 'STOP', `finishReason is ${whole.candidates[0].finishReason}`);
    check(whole.usageMetadata.totalTokenCount > 0, 'no usage');

    let text = '';
    for await (const chunk of await genai.models.generateContentStream({ model, contents })) text += chunk.text ?? '';
    checkText(text, wanted);
    check((await genai.models.countTokens({ model, contents })).totalTokens > 0, 'no token count');
  },

  async 'tool loop'() {
    for (const name of [model, older]) await loop(name, (vault) => vault.one, 1);
  },
  async 'parallel tools'() {
    for (const name of [model, older]) await loop(name, (vault) => vault.two, 2);
  },

  async image() {
    const contents = [{ inlineData: { mimeType: 'image/png', data: picture } }, { text: '[[text: seen]]' }];
    checkText((await client(watched).models.generateContent({ model, contents })).text, 'seen');
    await pictureArrived();

    const drawn = await genai.models.generateContent({ model: 'gemini-3.1-flash-image', contents: 'a fox' });
    check(drawn.candidates[0].content.parts.some((part) => part.inlineData?.data), 'no picture was drawn');
  },

  async error() {
    namesNearest(await refused(() => genai.models.generateContent({ model: missing, contents: 'hello' }), ApiError, 404));
    namesNearest(await refused(() => genai.models.generateContentStream({ model: missing, contents: 'hello' }), ApiError, 404));
  },

  async 'rate limit'() {
    const limited = client(watched, limitedKey);
    await limited.models.generateContent({ model, contents: 'hello' });
    await refused(() => limited.models.generateContent({ model, contents: 'hello' }), ApiError, 429);
  },

  'used-up quota': () => refusedPromptly(() => client(watched).models.generateContent({ model: spent, contents: 'hello' }), ApiError),
};

// loop is a chat, whose history holds one model turn for each chunk of the stream.
async function loop(name, prompt, times) {
  const vault = new Vault();
  const tools = [{ functionDeclarations: [{ name: vault.name, description: vault.description, parametersJsonSchema: vault.schema }] }];
  const chat = genai.chats.create({ model: name, config: { tools, thinkingConfig: { includeThoughts: true } } });
  const calls = [];
  for await (const chunk of await chat.sendMessageStream({ message: prompt(vault) })) calls.push(...(chunk.functionCalls ?? []));
  check(calls.length === times, `${calls.length} calls instead of ${times}`);
  const message = calls.map((call) => ({ functionResponse: { id: call.id, name: call.name, response: { output: vault.open(call.args) } } }));
  let text = '';
  for await (const chunk of await chat.sendMessageStream({ message })) text += chunk.text ?? '';
  vault.loops(text, times);
}

await run(scenarios);
