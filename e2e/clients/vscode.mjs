// Drives windows of code-server in a browser. Each line of standard input is a command, {"command", "window", …}; each line of standard
// output is its result, {"result"} or {"error"}. The browser ends with standard input.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { chromium } = await import(pathToFileURL(process.env.PLAYWRIGHT).href);

const limit = 240_000; // for loaded machines
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
context.setDefaultTimeout(limit);
const windows = new Map();

const commands = {
  // Does not wait for the window, so that several can be opened at once.
  async open({ window, url }) {
    const page = await context.newPage();
    windows.set(window, page);
    await page.goto(url, { waitUntil: "commit" });
  },
  async opened({ window }) {
    await windows.get(window).locator(".monaco-workbench .statusbar").waitFor();
  },
  // Waits for a text in the status bar.
  async status({ window, text }) {
    await windows.get(window).locator(".statusbar").getByText(text).first().waitFor();
  },
  // What the item of the extension says to screen readers, which is what its tooltip shows.
  async item({ window, text }) {
    const item = windows.get(window).locator(`.statusbar-item[id*="perigee" i] a, .statusbar-item[aria-label*="perigee" i]`).first();
    await item.waitFor();
    const deadline = Date.now() + limit;
    for (;;) {
      const label = (await item.getAttribute("aria-label")) ?? "";
      if (label.includes(text)) {
        return label;
      }
      if (Date.now() > deadline) {
        throw new Error(`the status bar item says ${JSON.stringify(label)}, without ${JSON.stringify(text)}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  },
  // Shows the tooltip of the item, for a picture.
  async hover({ window }) {
    const page = windows.get(window);
    await page.locator(".statusbar-item").filter({ hasText: "perigee" }).first().hover();
    await page.locator(".monaco-hover").first().waitFor();
  },
  async shot({ window, path }) {
    await windows.get(window).screenshot({ path, animations: "disabled" });
  },
  // Types into the Chat view, and waits for a text in it.
  async chat({ window, prompt, answer }) {
    const page = windows.get(window);
    await page.locator(".chat-input-toolbars").getByText(/Gemini|Claude|GPT/).first().waitFor(); // a model is selected
    const input = page.locator(".interactive-input-part .monaco-editor").first();
    await input.click();
    await page.keyboard.type(prompt);
    await page.keyboard.press("Escape"); // closes suggestions, which would take the next key
    await page.keyboard.press("Enter");
    await page.locator(".interactive-list").getByText(answer).first().waitFor();
    return page.locator(".interactive-list").innerText();
  },
  // Waits for a notification with a text.
  async notified({ window, text }) {
    const toast = windows.get(window).locator(".notification-toast").filter({ hasText: text }).first();
    await toast.waitFor();
    return toast.innerText();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...options } = JSON.parse(line);
  let answer;
  try {
    answer = { result: (await commands[command](options)) ?? "" };
  } catch (error) {
    answer = { error: String(error.message ?? error).slice(0, 2000) };
    await windows.get(options.window)?.screenshot({ path: process.env.FAILURE }).catch(() => undefined);
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
