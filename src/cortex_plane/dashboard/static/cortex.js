// What the pages do by themselves: times in the viewer's zone, live parts, order by drag, small comforts.
// Without it every page still shows everything, and every button still works.
"use strict";

// -- light or dark --------------------------------------------------------------------------------

const THEME = "cortex-theme";
const root = document.documentElement;

function wear(theme) {
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
}
wear(localStorage.getItem(THEME));

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-switch]")) return;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = isDark ? "light" : "dark";
  localStorage.setItem(THEME, theme);
  wear(theme);
});

// -- times ----------------------------------------------------------------------------------------

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: matchMedia("(max-width: 860px)").matches ? "narrow" : "long" });
const FORMS = {
  full: new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }),
  clock: new Intl.DateTimeFormat(undefined, { timeStyle: "medium" }),
  day: new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" }),
  minute: new Intl.DateTimeFormat(undefined, { timeStyle: "short" }),
};

function ago(at) {
  const seconds = Math.round((at - Date.now()) / 1000);
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return relative.format(0, "second");
}

function tellTimes(within) {
  for (const time of within.querySelectorAll("time[data-form]")) {
    const at = new Date(time.dateTime);
    const form = FORMS[time.dataset.form];
    const text = form ? form.format(at) : ago(at);
    if (time.textContent !== text) time.textContent = text;
  }
}
setInterval(() => tellTimes(document), 5000);

// -- live parts -----------------------------------------------------------------------------------

// A part in which somebody is doing something is left alone: pressing, dragging, typing, choosing.
let isPressed = false;
document.addEventListener("pointerdown", () => { isPressed = true; });
for (const end of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(end, () => { isPressed = false; });

function isInUse(part) {
  if (isPressed) return true;
  const active = document.activeElement;
  if (part.contains(active) && active.matches("input, select, textarea")) return true;
  return part.querySelector("details.menu[open], input[type=checkbox]:checked, .dragged") !== null;
}

function refresh(part, name) {
  if (part && !document.hidden && !isInUse(part)) htmx.trigger(part, name);
}

function lookAgain() {
  refresh(document.querySelector("[data-live]"), "cortex-tick");
}

let stream = null;
let following = "";

function listen() {
  const job = document.querySelector("[data-follow]:not([data-ended])");
  const wanted = job ? job.dataset.follow : document.querySelector("[data-live]") && !document.querySelector("[data-follow]") ? "/live" : "";
  if (wanted === following) return;
  if (stream) stream.close();
  stream = null;
  following = wanted;
  if (!wanted) return;
  stream = new EventSource(wanted);
  if (wanted === "/live") {
    stream.addEventListener("tick", lookAgain);
    return;
  }
  const look = soon(lookAgain);
  const readLog = soon(() => refresh(document.getElementById("log"), "cortex-log"));
  for (const news of ["state", "step", "tokens", "progress"]) stream.addEventListener(news, look);
  stream.addEventListener("log", readLog);
  stream.addEventListener("ended", () => {
    stream.close();
    look();
    readLog();
  });
}

function soon(work) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, 250);
  };
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) lookAgain();
});

// -- choosing many --------------------------------------------------------------------------------

function boxes() {
  return [...document.querySelectorAll("input[type=checkbox][name=ids]")];
}

function countChosen() {
  const told = document.querySelector("[data-chosen]");
  const chosen = boxes().filter((box) => box.checked).length;
  if (told && chosen) told.textContent = `${chosen} chosen`;
  else if (told && told.dataset.before) told.textContent = told.dataset.before;
}

document.addEventListener("change", (event) => {
  const changed = event.target;
  if (changed.matches("[data-all]")) for (const box of boxes()) box.checked = changed.checked;
  if (changed.matches("[data-submit]")) changed.form.requestSubmit();
  countChosen();
});

// -- asking back, copying, menus ------------------------------------------------------------------

document.addEventListener("submit", (event) => {
  const asks = event.submitter?.dataset.confirm || event.target.dataset.confirm;
  if (asks && !confirm(asks)) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}, true);

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  const copied = event.target.closest("[data-copy]");
  if (copied && navigator.clipboard) navigator.clipboard.writeText(copied.textContent).then(() => { copied.title = "Copied"; });
});

document.addEventListener("toggle", (event) => {
  if (event.target.matches("details.menu") && event.target.open) event.target.querySelector("input:not([type=hidden]), select")?.focus();
}, true);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  }
  const isTyping = event.target.matches("input, select, textarea");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
});

// -- order by drag; the arrow buttons do the same by keyboard ---------------------------------------

let dragged = null;

document.addEventListener("dragstart", (event) => {
  isPressed = true; // The browser has just cancelled the pointer.
  dragged = event.target.closest("[data-order] > li[draggable]");
  if (!dragged) return;
  dragged.classList.add("dragged");
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.dataset.job);
});

function target(event) {
  const over = event.target.closest?.("[data-order] > li");
  if (!dragged || !over || over === dragged) return null;
  const box = over.getBoundingClientRect();
  return { over, place: event.clientY < box.top + box.height / 2 ? "before" : "after" };
}

function unmark() {
  for (const item of document.querySelectorAll(".order .above, .order .below")) item.classList.remove("above", "below");
}

document.addEventListener("dragover", (event) => {
  const found = target(event);
  unmark();
  if (!found) return;
  event.preventDefault();
  found.over.classList.add(found.place === "before" ? "above" : "below");
});

document.addEventListener("drop", (event) => {
  const found = target(event);
  if (!found) return;
  event.preventDefault();
  const form = dragged.querySelector("form.moves");
  const fields = new FormData(form);
  fields.set("anchor", found.over.dataset.job);
  fields.set("place", found.place);
  const values = Object.fromEntries(fields);
  htmx.ajax("POST", form.getAttribute("action"), { target: "body", swap: "innerHTML", values });
});

document.addEventListener("dragend", () => {
  dragged?.classList.remove("dragged");
  dragged = null;
  unmark();
});

// -- beginning, also of parts that were drawn anew ---------------------------------------------------

// What was drawn last of each part. One that is the same again is not replaced: whoever is about to press something keeps it.
const drawn = new Map();

function essence(part) {
  return part.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1").replace(/ class="htmx-[^"]*"/g, "");
}

let wasAtTheEnd = true;
document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  if (!part.id || !(part.matches("[data-live]") || part.id === "log")) {
    drawn.clear();
    return;
  }
  if (part.id === "log") wasAtTheEnd = part.scrollHeight - part.scrollTop - part.clientHeight < 30;
  const next = new DOMParser().parseFromString(event.detail.serverResponse, "text/html").getElementById(part.id);
  if (!next) return;
  const seen = essence(next);
  if (isInUse(part) || drawn.get(part.id) === seen) event.detail.shouldSwap = false;
  else drawn.set(part.id, seen);
});

function begin() {
  for (const part of document.querySelectorAll("[data-live], #log")) {
    if (!drawn.has(part.id)) drawn.set(part.id, essence(part));
  }
  tellTimes(document);
  const told = document.querySelector("[data-chosen]");
  if (told && !told.dataset.before) told.dataset.before = told.textContent;
  const log = document.getElementById("log");
  if (log && wasAtTheEnd) log.scrollTop = log.scrollHeight;
  // On a phone the pages stand in one line; the one that is open should be seen.
  const current = document.querySelector(".side nav [aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - 60;
  listen();
}
document.addEventListener("htmx:afterSettle", begin);
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
else begin();
