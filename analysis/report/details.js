"use strict";
// The chosen head: what was observed, what was changed, what stays open, and examples.

function drawDetails(head) {
  const claim = head.claim;
  const grid = DATA.grids.find(g => g.type === head.type);
  const list = items => make("ul", {}, items.map(item => make("li", {}, item)));
  const observed = claim.observed.map(o => make("li", {}, o.seen,
    o.holds ? make("span", { class: "verdict " + o.holds }, o.holds === "yes" ? "criterion met" : "not met") : null,
    make("span", { class: "criterion" }, o.criterion)));
  // what meets its criterion first; the rest can be unfolded
  const met = observed.filter((_, i) => claim.observed[i].holds !== "no");
  const rest = observed.filter((_, i) => claim.observed[i].holds === "no");
  document.getElementById("details").replaceChildren(
    make("h2", {}, `${grid.title}, layer ${head.layer}, head ${head.head}`),
    make("p", { class: "headline" }, claim.headline),
    make("p", { class: "faint" }, claim.where),
    make("h3", {}, "Observed"), make("ul", { id: "observed" }, met),
    rest.length ? make("details", {}, make("summary", {}, `${rest.length} patterns looked for and not met`), make("ul", {}, rest)) : null,
    make("h3", {}, "Intervened"), make("div", { id: "intervened" }, list(claim.intervened)),
    make("h3", {}, "Open"), list(claim.open),
    ...examples(head));
}

function examples(head) {
  const usable = DATA.maps.map((s, i) => [s, i]).filter(([s]) => weightsOf(s, head));
  const title = make("h3", {}, "Examples");
  if (!usable.length) return [title, make("p", { class: "faint" }, "No attention maps of this head were saved.")];
  if (!usable.some(([, i]) => i === state.sentence)) state.sentence = usable[0][1];
  const select = make("select", { id: "sentence", onchange: event => { state.sentence = Number(event.target.value); drawMap(head); } },
    usable.map(([s, i]) => {
      const text = s.source.join(" ");
      const option = make("option", { value: String(i) }, `${s.id}: ${text.length > 60 ? text.slice(0, 60) + "…" : text}`);
      option.selected = i === state.sentence;
      return option;
    }));
  const place = make("div", { id: "map" });
  queueMicrotask(() => drawMap(head));
  return [title, make("p", {}, make("label", {}, "Sentence ", select)), place];
}
