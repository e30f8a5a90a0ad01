// The pages work without this script, all but actions. It keeps them current, asks before it changes many jobs, draws
// charts, and adds keys. No text of a job is ever read as HTML here: pages come escaped from the server.
"use strict";

const base = document.body.dataset.base;
const answer = document.getElementById("answer");
const dialog = document.getElementById("dialog");
const FRAGMENT = "text/vnd.tenure.fragment+html";
const KEYS = [
  ["g, then o q j e l s i w a", "go to a page"], ["/", "to the first filter"], ["j, k", "next, previous row"], ["Enter", "open the row"],
  ["x", "pick the row"], [".", "to the actions"], ["r", "read the page again"], ["p", "stop and start live updates"],
  ["t", "light, dark, as the system has it"], ["?", "this list"],
];
let isLive = true;
let stale = false;
let reading = false;

const main = () => document.getElementById("main");
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function say(text, isBad = false) {
  answer.textContent = text;
  answer.classList.toggle("bad", isBad);
}

// Times: in the zone of the reader, with UTC in the tooltip.

function span(ms) {
  let rest = Math.max(0, Math.floor(ms / 1000));
  const words = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    if (rest >= size) words.push(Math.floor(rest / size) + unit);
    rest %= size;
  }
  return words.slice(0, 2).join(" ") || "0s";
}

function localize(root = document) {
  const now = Date.now();
  for (const time of all("time[data-ms]", root)) {
    const ms = Number(time.dataset.ms);
    if (time.dataset.kind === "at") time.textContent = new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
    else time.textContent = ms > now ? `in ${span(ms - now)}` : `${span(now - ms)} ago`;
  }
}

// Charts.

function draw() {
  for (const place of all("[data-chart]")) {
    const width = place.clientWidth - 12;
    if (place.dataset.drawn === place.dataset.chart + width || width < 50) continue;
    place.dataset.drawn = place.dataset.chart + width;
    const day = JSON.parse(place.dataset.chart);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    const lines = [
      {},
      { label: "ended", stroke: color("--main"), fill: color("--tag"), width: 2, points: { show: false } },
      { label: "failed", stroke: color("--bad"), width: 2, dash: [4, 3], points: { show: false } },
    ];
    place.replaceChildren();
    new uPlot({ width, height: 170, series: lines, axes: [axis, { ...axis, size: 60 }], scales: { y: { range: (u, low, high) => [0, Math.max(1, high)] } }, legend: { live: width > 500 } },
      [day.at_s, day.ended, day.failed], place);
  }
}

// Live: a fragment is this page without its frame.

async function read() {
  if (reading) { stale = true; return; }
  reading = true;
  stale = false;
  try {
    const got = await fetch(location.href, { headers: { Accept: FRAGMENT } });
    const text = await got.text();
    if (!got.ok) { say(text.trim(), true); return; }
    const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
    // The text of a button that has the focus changes with it; what the reader types does not.
    const ignoreActiveValue = document.activeElement.matches("input, textarea, select");
    Idiomorph.morph(main(), fresh, { ignoreActiveValue, callbacks: { beforeNodeMorphed: keeps } });
    if (fresh.dataset.title) document.title = fresh.dataset.title;
    shown();
  } catch {
    say("The dashboard does not answer.", true);
  } finally {
    reading = false;
    if (stale && !document.hidden) setTimeout(read, 500);
  }
}

const fields = (form) => all("input, textarea, option", form);

function isWritten(field) {
  if (field.matches("option")) return field.selected !== field.defaultSelected && field.parentNode.matches("select:has([selected])");
  return field.value !== field.defaultValue;
}

// What the reader has opened, written or picked stays as it is.
function keeps(old, fresh) {
  if (!(old instanceof Element) || !(fresh instanceof Element)) return true;
  if (old.matches("details")) fresh.toggleAttribute("open", old.open);
  if (old.matches("form") && (old.contains(document.activeElement) || fields(old).some(isWritten))) return false;
  if (old.matches("[data-chart]")) {
    if (old.dataset.chart !== fresh.dataset.chart) { old.dataset.chart = fresh.dataset.chart; }
    return false;
  }
  if (old.matches("input[name=pick]")) { fresh.checked = old.checked; return false; }
  if (old.matches("#pick-all, [data-picks], #picked")) return false;
  return true;
}

function shown() {
  localize();
  draw();
  picked();
}

let lost = false;

function listen() {
  const events = new EventSource(`${base}api/v1/events`);
  events.addEventListener("change", (event) => {
    const names = new Set(JSON.parse(main().dataset.live));
    if (JSON.parse(event.data).some((name) => names.has(name))) news();
  });
  events.onerror = () => {
    lost = true;
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 10000);  // refused: the browser does not try again
  };
  events.onopen = () => { if (lost) news(); lost = false; };
}

function news() {
  if (document.hidden || !isLive) stale = true;
  else read();
}

function live(on) {
  isLive = on;
  const button = document.getElementById("live");
  button.textContent = on ? "Live" : "Paused";
  button.setAttribute("aria-pressed", String(on));
  if (on && stale) read();
}

// Actions.

function ask(title, lines, { yes = "OK", input = null } = {}) {
  document.getElementById("dialog-title").textContent = title;
  const body = document.getElementById("dialog-body");
  body.replaceChildren(...lines.map((line) => {
    const p = document.createElement("p");
    p.textContent = line;
    return p;
  }));
  let field = null;
  if (input !== null) {
    field = document.createElement("input");
    field.setAttribute("aria-label", input);
    body.append(field);
  }
  document.getElementById("dialog-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  (field || document.getElementById("dialog-yes")).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? (field ? field.value : true) : null), { once: true });
  });
}

async function post(action, body) {
  const got = await fetch(`${base}api/v1/actions/${action}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const document_ = await got.json().catch(() => ({ error: `The dashboard answered ${got.status}.` }));
  return { ok: got.ok, status: got.status, document: document_ };
}

const jobs = (count) => (count === 1 ? "1 job" : `${count.toLocaleString()} jobs`);

async function act(action, body, { confirm = "" } = {}) {
  const isBulk = ["retry", "cancel", "discard", "purge"].includes(action) && !("id" in body.select);
  if (confirm && !isBulk && !(await ask(`${confirm}?`, [Object.values(body.select).join(" ")], { yes: confirm }))) return false;
  try {
    let got = await post(action, isBulk ? { ...body, dry_run: true } : body);
    while (got.document.expect !== undefined) {
      const count = got.document.expect;
      if (!count) { say("No such job."); return false; }
      const lines = got.ok ? [] : [got.document.error];
      lines.push(...Object.entries(body.select).filter(([name]) => name !== "jobs").map(([name, value]) => `${name}: ${value}`));
      if (!(await ask(`${confirm || action} ${jobs(count)}${got.document.cut ? " (there may be more)" : ""}?`, lines, { yes: confirm || action }))) return false;
      got = await post(action, { ...body, expect: count });
    }
    if (!got.ok) { say(got.document.error || "It failed.", true); return false; }
    if (got.document.run) say(`${action}: ${jobs(got.document.found)}, running.`);
    else if (action === "enqueue") say(got.document.done ? `Enqueued: ${got.document.id}` : `Nothing new: ${got.document.id} has its place.`);
    else say(`${action}: done.`);
    read();
    return true;
  } catch {
    say("The dashboard does not answer.", true);
    return false;
  }
}

function picks() {
  return all("input[name=pick]:checked").map((box) => JSON.parse(box.dataset.job));
}

function picked() {
  const count = picks().length;
  const shownCount = document.getElementById("picked");
  if (!shownCount) return;
  shownCount.textContent = String(count);
  for (const button of all("[data-picked]")) button.disabled = !count;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-action]");
  if (!button) return;
  const select = button.hasAttribute("data-picked") ? { jobs: picks() } : JSON.parse(button.dataset.select);
  const body = { select, ...JSON.parse(button.dataset.args || "{}") };
  if (button.dataset.prompt) {
    const text = await ask(button.textContent, [button.dataset.prompt], { yes: button.textContent, input: button.dataset.prompt });
    if (text === null) return;
    body[button.dataset.promptName] = text;
  }
  await act(button.dataset.action, body, { confirm: button.dataset.confirm || "" });
  if (button.isConnected) button.focus();
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.action) return;
  event.preventDefault();
  const body = { select: JSON.parse(form.dataset.select) };
  for (const field of all("[name]", form)) {
    if (field.value === "" || field.disabled || field.value === field.dataset.unchanged) continue;
    body[field.name] = field.type === "number" ? Number(field.value) : field.value;
  }
  if (form.dataset.confirm && !(await ask(`${form.dataset.confirm}?`, [], { yes: "Yes" }))) return;
  document.activeElement.blur();
  if (!(await act(form.dataset.action, body))) return;
  if (form.dataset.reset) form.reset();
  for (const field of fields(form)) {  // what is saved is not what the reader has written
    if (field.matches("option")) field.defaultSelected = field.selected;
    else field.defaultValue = field.value;
  }
});

document.addEventListener("change", (event) => {
  if (event.target.id === "pick-all") for (const box of all("input[name=pick]")) box.checked = event.target.checked;
  picked();
});

// Keys.

function row(step) {
  const rows = all("tbody tr", main());
  const at = rows.findIndex((one) => one.contains(document.activeElement) || one.classList.contains("at"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  rows.forEach((one) => one.classList.toggle("at", one === next));
  (next?.querySelector("th a, a") || next?.querySelector("input, button"))?.focus();
}

function theme() {
  const order = ["", "light", "dark"];
  const next = order[(order.indexOf(document.documentElement.dataset.theme || "") + 1) % 3];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  try { localStorage.setItem("tenure-theme", next); } catch { /* kept for this page only */ }
  say(`Theme: ${next || "as the system has it"}`);
  all("[data-chart]").forEach((place) => delete place.dataset.drawn);
  draw();
}

const help = () => ask("Keys", KEYS.map(([keys, what]) => `${keys}: ${what}`));

let gone = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (Date.now() - gone < 1500) {
    gone = 0;
    const link = all("nav a[data-key]").find((one) => one.dataset.key === event.key);
    if (link) { event.preventDefault(); location.href = link.href; return; }
  }
  const at = document.activeElement.closest?.("tr") || document.querySelector("tr.at");
  const does = {
    g: () => { gone = Date.now(); },
    "/": () => main().querySelector(".filters input, input")?.focus(),
    j: () => row(1),
    k: () => row(-1),
    x: () => { const box = at?.querySelector("input[name=pick]"); if (box) { box.checked = !box.checked; picked(); } },
    ".": () => main().querySelector("button[data-action]:not(:disabled)")?.focus(),
    r: read,
    p: () => live(!isLive),
    t: theme,
    "?": help,
  }[event.key];
  if (does) { event.preventDefault(); does(); }
});

document.getElementById("dialog-no").addEventListener("click", () => dialog.close("no"));
document.getElementById("live").addEventListener("click", () => live(!isLive));
document.getElementById("theme").addEventListener("click", theme);
document.getElementById("help").addEventListener("click", help);
all(".tools button").forEach((button) => { button.hidden = false; });
document.addEventListener("visibilitychange", () => { if (!document.hidden && stale && isLive) read(); });
window.addEventListener("resize", draw);
setInterval(localize, 5000);
shown();
listen();
