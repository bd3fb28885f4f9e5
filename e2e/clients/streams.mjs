// A stream that breaks off and one that is silent, through one library: node streams.mjs LIBRARY

import { check, key, model, run, shaky, token } from './scenario.mjs';

// Each library: from a model and a prompt to the pieces of text that a program sees.
const libraries = {
  '@google/genai': genai,
  'genai-1.52': genai,
  'genai-1.30': genai,

  async *'@google/generative-ai'(name, prompt) {
    const { GoogleGenerativeAI } = await import('@google/generative-ai');
    const asked = new GoogleGenerativeAI(key).getGenerativeModel({ model: name }, { baseUrl: shaky });
    for await (const chunk of (await asked.generateContentStream(prompt)).stream) yield chunk.text();
  },

  async *'@langchain/google-genai'(name, prompt) {
    const { ChatGoogleGenerativeAI } = await import('@langchain/google-genai');
    const asked = new ChatGoogleGenerativeAI({ model: name, apiKey: key, baseUrl: shaky, maxRetries: 0 });
    for await (const chunk of await asked.stream(prompt)) yield chunk.text;
  },

  async *genkit(name, prompt) {
    const { genkit } = await import('genkit');
    const { googleAI } = await import('@genkit-ai/google-genai');
    const ai = genkit({ plugins: [googleAI({ apiKey: key, baseUrl: shaky })] });
    const { stream, response } = ai.generateStream({ model: googleAI.model(name), prompt });
    response.catch(() => {}); // the loop below throws the same
    for await (const chunk of stream) yield chunk.text;
    await response;
  },

  async *'@google/adk'(name, prompt) {
    process.env.GOOGLE_GEMINI_BASE_URL = shaky;
    const { Gemini, InMemoryRunner, LlmAgent, StreamingMode } = await import('@google/adk');
    const agent = new LlmAgent({ name: 'asked', model: new Gemini({ model: name, apiKey: key }) });
    const runner = new InMemoryRunner({ agent, appName: 'e2e' });
    const session = await runner.sessionService.createSession({ appName: 'e2e', userId: 'u' });
    const events = runner.runAsync({
      userId: 'u', sessionId: session.id, newMessage: { role: 'user', parts: [{ text: prompt }] }, runConfig: { streamingMode: StreamingMode.SSE },
    });
    for await (const event of events) {
      if (event.errorCode || event.errorMessage) throw new Error(`${event.errorCode}: ${event.errorMessage}`);
      if (event.partial) yield (event.content?.parts ?? []).map((part) => part.text ?? '').join('');
    }
  },

  'ai google': async function* (name, prompt) {
    const { createGoogleGenerativeAI } = await import('@ai-sdk/google');
    yield* aiSDK(createGoogleGenerativeAI({ baseURL: `${shaky}/v1beta`, apiKey: key })(name), prompt);
  },
  'ai openai': async function* (name, prompt) {
    const { createOpenAI } = await import('@ai-sdk/openai');
    yield* aiSDK(createOpenAI({ baseURL: `${shaky}/v1`, apiKey: key })(name), prompt);
  },
  'ai openai-compatible': async function* (name, prompt) {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    yield* aiSDK(createOpenAICompatible({ name: 'perigee', baseURL: `${shaky}/v1`, apiKey: key })(name), prompt);
  },
  'ai anthropic': async function* (name, prompt) {
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    yield* aiSDK(createAnthropic({ baseURL: `${shaky}/v1`, apiKey: key })(name), prompt);
  },

  'openai chat': async function* (name, prompt) {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ baseURL: `${shaky}/v1`, apiKey: key, maxRetries: 0 });
    const stream = await client.chat.completions.create({ model: name, messages: [{ role: 'user', content: prompt }], stream: true });
    for await (const chunk of stream) yield chunk.choices[0]?.delta?.content ?? '';
  },
  'openai responses': async function* (name, prompt) {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ baseURL: `${shaky}/v1`, apiKey: key, maxRetries: 0 });
    for await (const event of await client.responses.create({ model: name, input: prompt, stream: true })) {
      if (event.type === 'response.output_text.delta') yield event.delta;
      if (event.type === 'response.failed') throw new Error(event.response.error.message); // as the API has it: an event, and no exception
    }
  },
  '@anthropic-ai/sdk': anthropic,
  'anthropic-sdk-0': anthropic,
};

const library = process.argv[2];

// What libraries say that do not pass the message on. They also leave a rejected promise behind that a program cannot reach.
const mute = { '@google/generative-ai': 'Failed to parse stream', '@langchain/google-genai': 'Failed to parse stream' };
process.on('unhandledRejection', () => {});

async function* genai(name, prompt) {
  const { GoogleGenAI } = await import(library);
  const ai = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: shaky } });
  for await (const chunk of await ai.models.generateContentStream({ model: name, contents: prompt })) yield chunk.text ?? '';
}

async function* anthropic(name, prompt) {
  const { default: Anthropic } = await import(library);
  const client = new Anthropic({ baseURL: shaky, apiKey: key, maxRetries: 0 });
  const stream = await client.messages.create({ model: name, max_tokens: 1024, messages: [{ role: 'user', content: prompt }], stream: true });
  for await (const event of stream) if (event.type === 'content_block_delta') yield event.delta.text ?? '';
}

async function* aiSDK(asked, prompt) {
  const { streamText } = await import('ai');
  const stream = streamText({ model: asked, prompt, maxRetries: 0, onError: () => {} });
  for await (const part of stream.fullStream) {
    if (part.type === 'text-delta') yield part.text;
    if (part.type === 'error') throw part.error;
  }
}

// inFull is everything an error says, whatever it is wrapped in.
const inFull = (error) => `${error?.message ?? error} ${error?.cause ? inFull(error.cause) : ''} ${typeof error === 'object' ? JSON.stringify(error) : ''}`;

await run({
  async 'broken stream'() {
    const wanted = token();
    let text = '';
    try {
      for await (const piece of libraries[library](model, `[[text: one two three four five six ${wanted}]] [[chunks: 7]] cut every ${wanted}`)) text += piece;
    } catch (error) {
      check(!text.includes(wanted), `all of the text came: ${text}`);
      check(inFull(error).includes(mute[library] ?? 'shaky'), `the error does not say what perigee said: ${inFull(error)}`);
      return;
    }
    throw new Error(`the stream ends as if it were complete: ${JSON.stringify(text)}`);
  },

  async 'silent stream'() {
    const wanted = token();
    const pieces = [];
    for await (const piece of libraries[library](model, `[[text: it is ${wanted}]] [[chunks: 2]] [[pace: 20s]] think long ${wanted}`)) if (piece) pieces.push(piece);
    check(pieces.join('') === `it is ${wanted}`, `the answer is ${JSON.stringify(pieces)}`);
  },
});
