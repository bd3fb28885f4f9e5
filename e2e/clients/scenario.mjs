// What all client scripts share: where perigee is, what is asked of it, and how results are told to the driver,
// which reads one line per scenario: "pass NAME" or "fail NAME: why".

import { randomBytes } from 'node:crypto';

const env = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; these scripts are started by the driver`);
  return value;
};

export const simulated = env('PERIGEE_SIMULATED'); // answers from the built-in simulator
export const watched = env('PERIGEE_WATCHED'); // answers through a witness, which sees what the provider gets
export const witness = env('PERIGEE_WITNESS');
export const shaky = env('PERIGEE_SHAKY'); // its provider breaks off, or is silent, when the prompt says so
export const key = env('PERIGEE_KEY');
export const limitedKey = env('PERIGEE_LIMITED_KEY'); // good for one request a minute
export const picture = env('PERIGEE_PICTURE'); // a PNG in base64

// Gemini 3 refuses a call that comes back without its signature, Claude text that is empty.
export const model = 'gemini-3-flash';
export const older = 'gemini-2.5-pro';
export const claude = 'claude-sonnet-4-6';
export const spent = 'gemini-2.5-flash-lite'; // its quota is used up, at watched
export const missing = 'gemini-3-flsh';

// Behind a prompt: the answer comes in two pieces, with a silence in between that perigee fills with a sign of life.
export const slowly = '[[chunks: 2]] [[pace: 1300ms]]';

// A token is what only the other side can know, so that an answer which holds it must have come from there.
export const token = () => 'tok' + randomBytes(6).toString('hex');

export function check(condition, why) {
  if (!condition) throw new Error(why);
}

export function checkText(text, wanted) {
  check(typeof text === 'string' && text.includes(wanted), `the answer ${JSON.stringify(text)} does not hold ${JSON.stringify(wanted)}`);
}

// Vault is the tool of all loops. What it opens is random, and proves in the final text that the result arrived.
export class Vault {
  name = 'open_vault';
  description = 'Opens a vault and says what is in it.';
  schema = {
    type: 'object',
    properties: { vault: { type: 'string' }, floor: { type: 'integer', minimum: 0, maximum: 9 } },
    required: ['vault'],
    additionalProperties: false,
  };
  opened = [];

  open = (args) => {
    if (typeof args === 'string') args = JSON.parse(args);
    check(['north', 'south'].includes(args?.vault), `the tool was called with ${JSON.stringify(args)}`);
    const held = token();
    this.opened.push(held);
    return `in ${args.vault} is ${held}`;
  };

  one = '[[think: which vault]] [[call: open_vault {"vault": "north", "floor": 3}]]';
  two = '[[call: open_vault {"vault": "north"}]] [[call: open_vault {"vault": "south"}]]';

  twoInTurn = '[[call: open_vault {"vault": "north"}]] [[then]] [[call: open_vault {"vault": "south"}]]';

  // loops checks that a final text quotes everything that was opened, in order.
  loops(text, times) {
    check(this.opened.length === times, `the tool was called ${this.opened.length} times, not ${times}`);
    let from = 0;
    for (const held of this.opened) {
      const at = text.indexOf(held, from);
      check(at >= 0, `the answer ${JSON.stringify(text)} does not quote ${held} in its place`);
      from = at;
    }
  }
}

// pictureArrived asks the witness whether the last request to the provider held the picture, pixel by pixel.
export async function pictureArrived() {
  const answer = await fetch(`${witness}/picture`);
  check(answer.ok, await answer.text());
}

// refused checks that a call fails with an error of the class a program would catch, and returns the error.
export async function refused(call, type, status) {
  let result;
  try {
    result = await call();
  } catch (error) {
    check(error instanceof type, `expected ${type.name}, got ${error?.constructor?.name}: ${error?.message}`);
    const got = error.status ?? error.statusCode;
    check(got === status, `expected status ${status}, got ${got}: ${error.message}`);
    return error;
  }
  throw new Error(`expected ${type.name}, got an answer: ${JSON.stringify(result)?.slice(0, 200)}`);
}

// refusedPromptly is refused for a library that retries as often as it does by default: the quota that it asks for resets in an
// hour, and it must not wait for that.
export function refusedPromptly(call, type) {
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error('the library still waits after 30 seconds')), 30_000).unref());
  return Promise.race([refused(call, type, 429), late]);
}

// namesNearest checks that the error of an unknown model says what there is instead.
export function namesNearest(error) {
  checkText(error.message, model);
}

export async function run(scenarios) {
  const wanted = env('PERIGEE_SCENARIOS').split(',');
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (!wanted.includes(name)) continue;
    try {
      await scenario();
      console.log(`pass ${name}`);
    } catch (error) {
      console.log(`fail ${name}: ${String(error?.stack ?? error).replaceAll('\n', ' | ').slice(0, 1500)}`);
    }
  }
  process.exit(); // although a library may still wait
}
