// Live updates, copy buttons and the theme. Pages work without this file. Text of clients and providers is set with textContent
// only; fragments of HTML come from perigee's own templates.
"use strict";

(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("perigee-theme"); } catch { return null; } };
  const theme = stored();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  const $ = (id) => document.getElementById(id);

  function themeButton() {
    const button = $("theme");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("perigee-theme", root.dataset.theme); } catch { /* it holds for this page */ }
    });
  }

  async function copy(button) {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // the clipboard needs https, or a loopback address
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    const label = button.getAttribute("aria-label");
    button.dataset.done = "";
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => { delete button.dataset.done; button.setAttribute("aria-label", label); }, 1500);
  }

  function copyButtons(within) {
    for (const button of within.querySelectorAll("[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", () => copy(button));
    }
  }

  // A form whose answer takes a while says so on its button, and is sent once.
  function busyForms() {
    for (const form of document.querySelectorAll("form[data-busy]")) {
      const button = form.querySelector("button"), label = button.querySelector("span"), text = label.textContent;
      const busy = (is) => { button.disabled = is; button.ariaBusy = is; label.textContent = is ? form.dataset.busy + "…" : text; };
      form.addEventListener("submit", () => busy(true));
      addEventListener("pageshow", () => busy(false)); // also when the browser goes back to this page
    }
  }

  const span = (seconds) => seconds < 60 ? seconds + " s" : seconds < 3600 ? Math.floor(seconds / 60) + " min" :
    Math.floor(seconds / 3600) + " h";

  function tick() {
    for (const time of document.querySelectorAll("[data-elapsed]")) {
      time.textContent = span(Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000)));
    }
  }

  // element makes the element of a fragment. A row of a table needs a table around it to be parsed.
  function element(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  }

  const shown = 1400, rows = 10;

  function live() {
    const opens = $("opens"), state = $("live");
    if (!opens || !state || !window.EventSource) return;
    const card = (id) => $("open-" + id);
    const parts = (id, name) => card(id)?.querySelector(`[data-part="${name}"]`);

    function tally() {
      const n = opens.querySelectorAll(".open:not(.over)").length;
      $("open-count").textContent = n;
      $("no-open").hidden = opens.childElementCount > 0;
    }

    function grow(id, name, text) {
      const part = parts(id, name), call = card(id);
      if (!part) return;
      let whole = part.textContent + text;
      if (whole.length > shown) whole = "…" + whole.slice(-shown + 200);
      part.textContent = whole;
      const phase = name === "text" ? "answering" : "thinking";
      if (name === "thinking" && call.dataset.phase === "answering") return;
      call.dataset.phase = phase;
      call.querySelector(".phase").textContent = phase;
      if (name === "text") parts(id, "thinking").hidden = true;
    }

    const on = {
      began({ id, html }) {
        card(id)?.remove();
        opens.prepend(element(html));
        tick();
        tally();
      },
      started({ id, html }) {
        const what = card(id)?.querySelector(".open-what");
        if (what) what.innerHTML = html;
      },
      text: ({ id, text }) => grow(id, "text", text),
      thinking: ({ id, text }) => grow(id, "thinking", text),
      tool({ id, text }) {
        const list = parts(id, "tools");
        if (!list || list.childElementCount >= 12) return;
        const chip = document.createElement("span");
        chip.className = "chip";
        chip.textContent = text;
        list.append(chip);
      },
      ended({ id, html }) {
        const row = element(html), call = card(id);
        $("call-" + id)?.remove();
        row.classList.add("new");
        $("recent").hidden = false;
        $("recent-rows").prepend(row);
        while ($("recent-rows").childElementCount > rows) $("recent-rows").lastElementChild.remove();
        if (!call) return;
        call.classList.add("over");
        call.classList.toggle("failed", row.classList.contains("failed"));
        call.querySelector(".phase").textContent = row.classList.contains("failed") ? "failed" : "done";
        call.querySelector("[data-elapsed]")?.removeAttribute("data-elapsed");
        tally();
        setTimeout(() => { call.remove(); tally(); }, 4000);
      },
      today({ html }) {
        const part = document.querySelector('[data-live="today"]');
        if (part) part.replaceChildren(element(html));
      },
    };

    const source = new EventSource("/dashboard/events");
    const say = (value, text) => { state.dataset.state = value; state.querySelector(".label").textContent = text; };
    source.addEventListener("hello", () => {
      for (const call of opens.querySelectorAll(".open")) call.remove(); // what is open follows
      tally();
      say("on", "Live");
    });
    source.onerror = () => say("lost", source.readyState === EventSource.CLOSED ? "Signed out; run perigee dashboard" : "Reconnecting");
    for (const [name, handle] of Object.entries(on)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
    addEventListener("pagehide", () => source.close());
    setInterval(tick, 1000);
  }

  document.addEventListener("DOMContentLoaded", () => {
    themeButton();
    copyButtons(document);
    busyForms();
    live();
  });
})();
