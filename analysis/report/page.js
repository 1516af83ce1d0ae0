"use strict";
// Grid, table and provenance. Text from the data only ever becomes text nodes: tokens may hold anything.

const DATA = JSON.parse(document.getElementById("data").textContent);

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

function show(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  return value.toFixed(digits);
}

function signed(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  if (Number(text) === 0) return (0).toFixed(digits); // not "-0.000"
  return value > 0 ? "+" + text : text.replace("-", "−");
}

// What cells are colored by, and what is written on them.
const COLORINGS = {
  functions: { name: "function" },
  relevance: { name: "relevance", text: h => show(h.relevance, 2) },
  confidence: { name: "confidence", text: h => show(h.confidence, 2) },
  loss: { name: "loss when switched off", text: h => signed(h.loss) },
};

const COLUMNS = [
  { key: "name", name: "head", text: true, value: h => h.key },
  { key: "functions", name: "functions", text: true, value: h => h.functions.join(", ") || null },
  { key: "relevance", name: "relevance" },
  { key: "confidence", name: "confidence" },
  { key: "offset", name: "position", format: v => signed(v, 0) },
  { key: "share", name: "its share" },
  { key: "gain", name: "best syntactic gain", format: v => signed(v) },
  { key: "two_rarest", name: "two rarest" },
  { key: "loss", name: "loss without it", format: v => signed(v, 4) },
  { key: "bleu", name: "BLEU without it", format: v => signed(v, 2) },
];

const state = { head: null, sort: "relevance", descending: true, sentence: 0 };
for (const [key, head] of Object.entries(DATA.heads)) head.key = key;
const HEADS = Object.values(DATA.heads);

function known(key) { return HEADS.some(h => h[key] !== null && h[key] !== undefined); }

function shade(share) {
  const mix = (a, b) => Math.round(a + (b - a) * Math.min(1, Math.max(0, share)));
  return { background: `rgb(${mix(247, 8)},${mix(251, 64)},${mix(255, 129)})`, color: share > 0.5 ? "#fff" : "#222" };
}

function paint(cell, head) {
  const mode = document.getElementById("color").value;
  cell.replaceChildren(make("b", {}, String(head.head)));
  let look = { background: "#f2f2f2", color: "#555" };
  let text = "";
  if (mode === "functions") {
    const looks = head.kinds.map(kind => DATA.looks[kind]);
    if (looks.length) {
      const part = 100 / looks.length;
      const stops = looks.map((l, i) => `${l.color} ${i * part}% ${(i + 1) * part}%`);
      look = { background: `linear-gradient(${stops.join(",")})`, color: looks[0].text };
      text = head.short.length > 1 ? `${head.short[0]} +${head.short.length - 1}` : head.short[0];
    }
  } else {
    const top = Math.max(...HEADS.filter(h => h.type === head.type).map(h => Math.abs(h[mode] || 0)), 1e-9);
    look = shade(Math.abs(head[mode] || 0) / top);
    text = COLORINGS[mode].text(head);
  }
  cell.style.background = look.background;
  cell.style.color = look.color;
  if (look.background.startsWith("linear") && head.kinds.length > 1) cell.style.textShadow = "0 0 3px #000, 0 0 3px #000";
  else cell.style.textShadow = "";
  if (look.background.startsWith("linear") && head.kinds.length > 1) cell.style.color = "#fff";
  cell.append(text);
}

function drawGrids() {
  const place = document.getElementById("grids");
  for (const grid of DATA.grids) {
    const block = make("div", { class: "grid" }, make("h3", {}, grid.title));
    // the highest layer on top, as in the figures
    for (let layer = grid.rows.length - 1; layer >= 0; layer--) {
      const row = make("div", { class: "row" }, make("span", { class: "layer" }, String(layer)));
      for (const key of grid.rows[layer]) {
        const head = DATA.heads[key];
        const label = `${grid.title}, layer ${layer}, head ${head.head}: ${head.functions.join(", ") || "no function found"}`;
        row.append(make("button", { class: "cell", type: "button", "data-head": key, title: label, "aria-label": label,
          "aria-pressed": "false", onclick: () => choose(key), onkeydown: move }));
      }
      if (!grid.rows[layer].length) row.append(make("span", { class: "faint" }, "no head left"));
      block.append(row);
    }
    place.append(block);
  }
}

function paintAll() {
  for (const cell of document.querySelectorAll(".cell")) paint(cell, DATA.heads[cell.dataset.head]);
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  if (document.getElementById("color").value !== "functions") return;
  for (const look of Object.values(DATA.looks)) {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = look.color;
    legend.append(make("span", { class: "legend-item" }, swatch, look.name));
  }
  if (!HEADS.some(h => h.functions.length)) legend.append(make("span", { class: "faint" }, "no head meets a criterion"));
}

function move(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] };
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  const head = DATA.heads[event.currentTarget.dataset.head];
  const rows = DATA.grids.find(g => g.type === head.type).rows;
  const row = rows[head.layer + step[0]];
  const next = row && row[Math.min(row.length - 1, Math.max(0, rows[head.layer].indexOf(head.key) + step[1]))];
  if (next) { choose(next); document.querySelector(`.cell[data-head="${next}"]`).focus(); }
}

function choose(key) {
  if (!DATA.heads[key]) return;
  state.head = key;
  for (const cell of document.querySelectorAll(".cell")) cell.setAttribute("aria-pressed", String(cell.dataset.head === key));
  for (const row of document.querySelectorAll("#table tbody tr")) row.classList.toggle("chosen", row.dataset.head === key);
  // the address names the head, so that it can be sent to somebody
  history.replaceState(null, "", "#" + key);
  drawDetails(DATA.heads[key]);
}

function drawTable() {
  const columns = COLUMNS.filter(c => c.text || known(c.key));
  const value = c => c.value || (h => h[c.key]);
  const chosen = columns.find(c => c.key === state.sort) || columns[0];
  const order = [...HEADS].sort((a, b) => {
    const [x, y] = [value(chosen)(a), value(chosen)(b)];
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    const sign = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return state.descending ? -sign : sign;
  });
  const head = make("tr", {}, columns.map(c => make("th", {
    class: c.text ? "text" : null, scope: "col", "data-column": c.key,
    "aria-sort": c === chosen ? (state.descending ? "descending" : "ascending") : "none",
  }, make("button", { type: "button", onclick: () => sortBy(c) }, c.name))));
  const body = order.map(h => make("tr", { "data-head": h.key, class: h.key === state.head ? "chosen" : null, onclick: () => choose(h.key) },
    columns.map(c => make("td", { class: c.text ? "text" : null },
      c.format ? c.format(value(c)(h)) : show(value(c)(h))))));
  document.getElementById("table").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, body)));
}

function sortBy(column) {
  if (state.sort === column.key) state.descending = !state.descending;
  else { state.sort = column.key; state.descending = !column.text; }
  drawTable();
}

function drawSources() {
  const place = document.getElementById("sources");
  const names = { roles: "Observation (roles)", ablation: "Intervention (ablate)", maps: "Example sentences (maps)" };
  for (const [key, name] of Object.entries(names)) {
    const source = DATA.provenance[key];
    if (!source) { place.append(make("p", {}, `${name}: not given.`)); continue; }
    place.append(make("details", {}, make("summary", {}, name), make("pre", {}, JSON.stringify(source, null, 1))));
  }
}

window.addEventListener("DOMContentLoaded", () => {
  const select = document.getElementById("color");
  for (const [key, coloring] of Object.entries(COLORINGS)) {
    if (key === "functions" || known(key)) select.append(make("option", { value: key }, coloring.name));
  }
  // where no head has a function, a grid without color would say nothing
  if (!HEADS.some(h => h.functions.length)) select.value = known("relevance") ? "relevance" : "confidence";
  select.addEventListener("change", paintAll);
  if (!known(state.sort)) state.sort = "confidence";
  drawGrids();
  paintAll();
  drawTable();
  drawSources();
  const asked = decodeURIComponent(location.hash.slice(1));
  const first = [...HEADS].sort((a, b) => b.functions.length - a.functions.length || b.relevance - a.relevance)[0];
  choose(DATA.heads[asked] ? asked : first.key);
});
