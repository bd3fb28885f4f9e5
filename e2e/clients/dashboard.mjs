// Uses the dashboard in a browser. The arguments are names of scenarios; each line of standard output is the outcome of one, {"scenario", "error"}.
// What the pages must never do (errors, violations of their content security policy, requests to anything but the daemon) is collected all the time
// and fails the scenario in which it happens.
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";

const { PLAYWRIGHT, CHROMIUM, ADDRESS, PERIGEE, CONFIG, SCREENSHOTS } = process.env;
const { chromium } = await import(pathToFileURL(PLAYWRIGHT).href);
const limit = 40_000; // for loaded machines
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });

const perigee = (...args) => execFileSync(PERIGEE, [...args, "--config", CONFIG], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const wanted = (condition, message) => {
  if (!condition) throw new Error(message);
};

let faults = []; // what a page did that it must not do
const expected = []; // texts of faults that the scenario provokes

async function newContext(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(limit);
  await context.exposeBinding("reportViolation", (_, text) => faults.push(`violation of the content security policy: ${text}`));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) => window.reportViolation(`${e.violatedDirective} ${e.blockedURI}`));
  });
  context.on("request", (request) => {
    if (!request.url().startsWith(ADDRESS + "/") && !request.url().startsWith("data:")) faults.push(`request to ${request.url()}`);
  });
  context.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(`console: ${message.text()}`);
  });
  context.on("weberror", (error) => faults.push(`exception: ${error.error()}`));
  context.on("response", (response) => {
    if (response.status() >= 400) faults.push(`status ${response.status()} of ${response.url()}`);
  });
  return context;
}

const link = () => {
  const found = perigee("dashboard", "--no-browser").match(/http:\/\/\S+\?ticket=\S+/);
  wanted(found, "perigee dashboard prints no link");
  return found[0];
};

// signedIn opens the dashboard with a link, as a person does.
async function signedIn(options) {
  const context = await newContext(options);
  const page = await context.newPage();
  await page.goto(link());
  await page.getByRole("heading", { level: 1, name: "Now" }).waitFor();
  return page;
}

// ask sends a call that answers slowly, and returns its answer when it is complete.
async function ask(words, pace) {
  const prompt = `[[text: ${words.join(" ")}]] [[chunks: ${words.length}]] [[pace: ${pace}ms]]`;
  const response = await fetch(`${ADDRESS}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "user-agent": "dashboard-e2e/1.0" },
    body: JSON.stringify({ model: "gemini-3-flash", stream: true, messages: [{ role: "user", content: prompt }] }),
  });
  return { id: response.headers.get("x-perigee-call"), done: response.text() };
}

const sections = [
  ["now", "/", "Now"], ["calls", "/dashboard/calls", "Calls"], ["accounts", "/dashboard/accounts", "Accounts"], ["usage", "/dashboard/usage", "Usage"],
  ["models", "/dashboard/models", "Models"], ["setup", "/dashboard/setup", /set up/i], ["config", "/dashboard/config", "Configuration"],
  ["upstreams", "/dashboard/upstreams", "Upstreams"], ["system", "/dashboard/system", "System"],
];

// look checks what every page has: one heading of the first level, a title, a language, and no scroll bar to the side.
async function look(page, name, heading) {
  const title = page.getByRole("heading", { level: 1, name: heading });
  await title.waitFor();
  wanted((await page.locator("h1").count()) === 1, `${name} has more than one h1`);
  const found = await page.evaluate(() => ({
    scroll: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    lang: document.documentElement.lang, title: document.title,
    unnamed: [...document.querySelectorAll("a, button, input:not([type=hidden]), select")].filter((e) => e.checkVisibility() &&
      !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length || e.title)).map((e) => e.outerHTML.slice(0, 80)),
  }));
  wanted(found.scroll <= 0, `${name} is ${found.scroll}px wider than the window of ${page.viewportSize().width}px`);
  wanted(found.lang === "en" && found.title.includes("perigee"), `${name} has the language ${found.lang} and the title ${found.title}`);
  wanted(found.unnamed.length === 0, `${name} has elements without a name: ${found.unnamed}`);
}

// brightness is that of a colour of the page, from 0 to 1.
const brightness = (page, property) => page.evaluate((property) => {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = getComputedStyle(document.body)[property];
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}, property);

// story opens the page of a call until it has a text: its trace is complete at most two seconds after its end.
async function story(page, id, text) {
  for (const until = Date.now() + limit; ;) {
    await page.goto(`${ADDRESS}/dashboard/calls/${id}`);
    await look(page, "call", /gemini-3-flash/);
    if ((await page.locator("main").innerText()).includes(text)) return;
    wanted(Date.now() < until, `the story of the call ${id} does not have ${text}`);
    await page.waitForTimeout(500);
  }
}

const shot = (page, name) => page.screenshot({ path: `${SCREENSHOTS}/dashboard-${name}.png`, animations: "disabled", fullPage: true });

// focus presses Tab until an element has the focus, and checks that a person sees where that is.
async function focus(page, role, name) {
  const target = page.getByRole(role, { name, exact: true });
  await target.waitFor();
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    if (await target.evaluate((e) => e === document.activeElement)) {
      const visible = await target.evaluate((e) => {
        const style = getComputedStyle(e), box = e.getBoundingClientRect();
        return (style.outlineStyle !== "none" || style.boxShadow !== "none") && box.width > 0 && box.height > 0;
      });
      wanted(visible, `the focus on ${name} cannot be seen`);
      return;
    }
  }
  throw new Error(`Tab does not reach ${name}`);
}

const enabled = (email) => JSON.parse(perigee("account", "list", "--json")).find((row) => row.email === email).enabled;

const scenarios = {
  async "every page, light and dark"() {
    const call = await ask(["a", "short", "answer"], 1);
    await call.done;
    for (const colorScheme of ["light", "dark"]) {
      const page = await signedIn({ colorScheme });
      for (const [name, path, heading] of sections) {
        const response = await page.goto(ADDRESS + path);
        const policy = response.headers()["content-security-policy"] ?? "";
        wanted(policy.includes("frame-ancestors 'none'") && !policy.includes("unsafe-inline"), `${name} has the policy ${policy}`);
        wanted(response.headers()["cache-control"] === "no-store", `${name} may be cached`);
        await look(page, name, heading);
        wanted(await page.locator("nav a[aria-current=page]").count() === 1, `${name} is not marked in the navigation`);
        await shot(page, `${name}-${colorScheme}`);
      }
      await story(page, call.id, "a short answer");
      await shot(page, `call-${colorScheme}`);
      const [background, text] = [await brightness(page, "backgroundColor"), await brightness(page, "color")];
      wanted(colorScheme === "light" ? background > 0.8 && text < 0.4 : background < 0.2 && text > 0.6,
        `in ${colorScheme} mode, the page has a background of ${background} and text of ${text}`);
      await page.context().close();
    }
  },

  async "every page on a phone"() {
    const call = await ask(["an-answer-in-one-word-that-is-longer-than-the-screen-of-a-phone-is-wide-and-cannot-be-broken-anywhere"], 1);
    await call.done;
    const page = await signedIn({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
    for (const [name, path, heading] of [...sections, ["call", `/dashboard/calls/${call.id}`, /gemini-3-flash/]]) {
      await page.goto(ADDRESS + path);
      await look(page, name, heading);
      await shot(page, `${name}-phone`);
    }
    await page.context().close();
  },

  async "a live call"() {
    const page = await signedIn();
    await page.locator("#live[data-state=on]").waitFor();
    const words = Array.from({ length: 60 }, (_, i) => `word${i}`);
    const call = await ask(words, 100);
    const card = page.locator(`#open-${call.id}`);
    await card.waitFor();
    const text = card.locator("[data-part=text]");
    const lengths = new Set();
    for (let ended = false; !ended && lengths.size < 5;) {
      const seen = await text.textContent({ timeout: 1000 }).catch(() => { ended = true; return ""; });
      wanted(words.join(" ").startsWith(seen.trim()), `the page shows ${seen}`);
      if (seen) lengths.add(seen.length);
      if (lengths.size === 3) await shot(page, "live");
    }
    wanted(lengths.size === 5, `of an answer in 60 pieces, the page has shown ${lengths.size} stages`);
    wanted((await page.locator("#open-count").textContent()) === "1", "the open call is not counted");
    await call.done;
    const row = page.locator(`#recent-rows #call-${call.id}`);
    await row.waitFor();
    await card.waitFor({ state: "detached" });
    await row.getByRole("link").first().click();
    await page.waitForURL(`**/dashboard/calls/${call.id}`);
    await story(page, call.id, words.slice(0, 10).join(" "));
    await page.context().close();
  },

  async "an account is disabled and enabled"() {
    const page = await signedIn();
    await page.goto(`${ADDRESS}/dashboard/accounts`);
    await page.getByRole("button", { name: "Disable bob@example.com" }).click();
    await page.getByRole("button", { name: "Enable bob@example.com" }).waitFor();
    wanted(!enabled("bob@example.com") && enabled("ada@example.com"), "the account was not disabled");
    await shot(page, "account-disabled");
    await page.getByRole("button", { name: "Enable bob@example.com" }).click();
    await page.getByRole("button", { name: "Disable bob@example.com" }).waitFor();
    wanted(enabled("bob@example.com"), "the account was not enabled");
    // Without the token of the form, and from another page, nothing changes.
    expected.push("403");
    const status = await page.evaluate(async () => (await fetch("/dashboard/accounts/bob@example.com/disable", { method: "POST" })).status);
    wanted(status === 403 && enabled("bob@example.com"), `a form without its token has the status ${status}`);
    await page.context().close();
  },

  async "keyboard only"() {
    const page = await signedIn();
    await page.keyboard.press("Tab");
    wanted((await page.evaluate(() => document.activeElement.textContent)) === "Skip to content", "the first stop is not the link to the content");
    await page.keyboard.press("Enter");
    wanted(await page.evaluate(() => location.hash === "#main" && document.activeElement.closest("main") !== null), "the link does not lead to the content");
    await page.goto(ADDRESS + "/");
    for (const [, path, heading] of sections.slice(1)) {
      const label = path.endsWith("setup") ? "Set up" : heading;
      await focus(page, "link", label);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: heading }).waitFor();
    }
    await focus(page, "link", "Accounts");
    await page.keyboard.press("Enter");
    await focus(page, "button", "Disable bob@example.com");
    await shot(page, "focus");
    await page.keyboard.press("Enter");
    await focus(page, "button", "Enable bob@example.com");
    wanted(!enabled("bob@example.com"), "the account was not disabled");
    await page.keyboard.press("Space");
    await page.getByRole("button", { name: "Disable bob@example.com" }).waitFor();
    wanted(enabled("bob@example.com"), "the account was not enabled");
    await page.context().close();
  },

  async "a link works once"() {
    const url = link();
    const first = await (await newContext()).newPage();
    await first.goto(url);
    await first.getByRole("heading", { level: 1, name: "Now" }).waitFor();
    wanted(!first.url().includes("ticket"), `the address still has the ticket: ${first.url()}`);
    wanted((await first.evaluate(() => document.cookie)) === "", "scripts can read the cookie");
    expected.push("401");
    const second = await (await newContext()).newPage();
    for (const path of [url, `${ADDRESS}/`, `${ADDRESS}/dashboard/config`]) {
      const response = await second.goto(path);
      wanted(response.status() === 401, `${path.replace(/=.*/, "=…")} has the status ${response.status()}`);
      await look(second, "sign-in", /./);
      wanted((await second.locator("main").innerText()).includes("perigee dashboard"), "the page does not name the command");
      wanted((await second.locator("nav").count()) === 0, "the page has navigation");
    }
    await shot(second, "signin");
    await first.reload();
    await first.getByRole("heading", { level: 1, name: "Now" }).waitFor();
    await first.context().close();
    await second.context().close();
  },
};

for (const scenario of process.argv.slice(2)) {
  [faults, expected.length] = [[], 0];
  let error = "";
  try {
    await scenarios[scenario]();
    const unexpected = faults.filter((fault) => !expected.some((text) => fault.includes(text)));
    wanted(unexpected.length === 0, unexpected.slice(0, 5).join("\n"));
  } catch (e) {
    error = String(e.message ?? e).slice(0, 2000) + (faults.length ? `\nbefore that: ${faults.slice(0, 3).join("\n")}` : "");
    for (const context of browser.contexts()) {
      const page = context.pages()[0];
      await page?.screenshot({ path: `${SCREENSHOTS}/dashboard-failure.png` }).catch(() => {});
      await context.close();
    }
  }
  console.log(JSON.stringify({ scenario, error }));
}
await browser.close();
