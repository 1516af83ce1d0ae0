"use strict";
// An attention map as SVG, and the sentence with the attention of one of its tokens.

function weightsOf(sentence, head) {
  const entry = sentence.attention[head.type];
  if (!entry) return null;
  const place = entry.heads.findIndex(([layer, number]) => layer === head.layer && number === head.head);
  if (place < 0) return null;
  if (!entry.bytes) entry.bytes = Uint8Array.from(atob(entry.weights), c => c.charCodeAt(0));
  const [queries, keys] = entry.shape;
  const start = place * queries * keys;
  return Array.from({ length: queries }, (_, q) =>
    Array.from({ length: keys }, (_, k) => entry.bytes[start + q * keys + k] / 255));
}

function svg(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function drawMap(head) {
  const sentence = DATA.maps[state.sentence];
  const weights = weightsOf(sentence, head);
  const [queries, keys] = sentence.labels[head.type];
  const cell = Math.max(13, Math.min(26, Math.floor(520 / Math.max(keys.length, 1))));
  const cut = token => (token.length > 20 ? token.slice(0, 19) + "…" : token);
  const long = tokens => Math.max(...tokens.map(t => cut(t).length)) * 7 + 14;
  const left = long(queries), top = long(keys);
  const picture = svg("svg", { width: left + keys.length * cell + 4, height: top + queries.length * cell + 4, role: "img",
    "aria-label": "attention map: rows attend to columns" });
  keys.forEach((token, k) => picture.append(svg("text", {
    transform: `translate(${left + (k + 0.65) * cell},${top - 6}) rotate(-90)` }, cut(token))));
  queries.forEach((token, q) => picture.append(svg("text", { x: left - 6, y: top + (q + 0.68) * cell, "text-anchor": "end" }, cut(token))));
  const readout = make("p", { class: "readout", id: "readout" }, "Point at a cell or a token to read its weights.");
  const strip = make("p", { class: "tokens", id: "tokens" });
  weights.forEach((row, q) => {
    const largest = Math.max(...row);
    row.forEach((weight, k) => {
      const cellNode = svg("rect", { class: "weight", x: left + k * cell, y: top + q * cell, width: cell - 1, height: cell - 1,
        fill: shade(weight).background, stroke: weight === largest && weight > 0 ? "#d55e00" : "#ddd", "data-q": q, "data-k": k,
        onmouseenter: () => {
          readout.textContent = `${queries[q]} → ${keys[k]}: ${weight.toFixed(2)}`;
          spread(strip, weights, queries, keys, q, readout);
        } });
      picture.append(cellNode);
    });
  });
  spread(strip, weights, queries, keys, 0, readout);
  document.getElementById("map").replaceChildren(
    make("p", { class: "faint" }, "Rows attend to columns; the largest weight of each row is framed. Weights to 1/255."),
    make("div", { class: "map-wrap" }, picture), readout, strip);
}

// The sentence once, shaded by how much token q attends to each of its tokens.
function spread(strip, weights, queries, keys, q, readout) {
  const chooser = make("select", { "aria-label": "attending token", id: "query" }, queries.map((token, i) => {
    const option = make("option", { value: String(i) }, `${i} ${token}`);
    option.selected = i === q;
    return option;
  }));
  chooser.addEventListener("change", event => spread(strip, weights, queries, keys, Number(event.target.value), readout));
  const tokens = keys.map((token, k) => {
    const look = shade(weights[q][k]);
    const node = make("span", { class: "token" + (queries === keys && k === q ? " chosen" : ""), title: weights[q][k].toFixed(2),
      onmouseenter: () => { readout.textContent = `${queries[q]} → ${token}: ${weights[q][k].toFixed(2)}`; } }, token);
    node.style.background = look.background;
    node.style.color = look.color;
    return node;
  });
  strip.replaceChildren(chooser, " attends to: ", ...tokens);
}
