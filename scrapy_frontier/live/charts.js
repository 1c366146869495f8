"use strict";
// Draws charts and tables. What comes from the web is only ever inserted as text.

const SVG = "http://www.w3.org/2000/svg";
const color = (name) => `var(--${name})`;

function make(space, name, attributes, children) {
  const node = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "css") Object.assign(node.style, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}
const el = (name, attributes, ...children) => make(null, name, attributes, children);
const svg = (name, attributes, ...children) => make(SVG, name, attributes, children);
const at = (id) => document.getElementById(id);

// -- words for numbers ---------------------------------------------------------------------------------

const count = (value) => Math.round(value).toLocaleString("en");

function short(value) {
  for (const [unit, size] of [["M", 1e6], ["k", 1e3]]) {
    if (value >= 10 * size || (unit === "M" && value >= size)) return `${+(value / size).toPrecision(3)}${unit}`;
  }
  return value < 10 && value % 1 ? value.toFixed(1) : count(value);
}

function bytes(value) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < 4) { value /= 1000; unit++; }
  return `${+value.toPrecision(3)} ${units[unit]}`;
}

function span(seconds) {
  if (seconds < 0.95) return `${+Math.max(seconds, 0).toPrecision(1)} s`;
  if (seconds < 10) return `${+seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const percent = (share) => `${+(100 * share).toPrecision(3)} %`;
const dayAndTime = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const timeOfDay = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

// A step of 1, 2 or 5 times a power of ten that divides `most` into about `parts` parts.
function niceStep(most, parts) {
  const raw = most / parts || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
}

// Why pages ended, by the codes of the frontier; another code is shown as it is.
const REASONS = {
  robots: "forbidden by robots.txt", robots_unreadable: "robots.txt unreadable", robots_hours: "robots.txt: other hours",
  status: "error status", nofollow_link: "linked with nofollow", nofollow_page: "on a page with nofollow", led: "led elsewhere",
  led_to_dropped: "led to what is not wanted", scope: "not followed by the spider", attempts_used_up: "all attempts used up",
  no_response: "no response", callback: "error in the spider", timed_out: "timed out", connection_refused: "connection refused",
  connection_lost: "connection lost", no_such_name: "no such host name", noindex: "asks not to be indexed", noindex_skip: "asks to be kept nowhere",
  nofollow: "asks not to follow its links", alias: "same as another page", rests: "host rests", rests_after: "host rests after trouble",
  redirect_refused: "redirect not followed", depth: "too deep", budget: "over the host's budget", other: "other",
};
const reason = (code) => REASONS[code] || code.replaceAll("_", " ");

// A step of so many seconds that people count by.
const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200];
const spanStep = (length, parts) => SPANS.find((each) => each * parts >= length) || Math.ceil(length / parts / 86400) * 86400;

// -- a chart of lines over time (or over shares) ---------------------------------------------------------

// series: [{name, color, values, fill, dashed, quiet}], all as long as xs; null leaves a gap.
// how: {label, x and y (number to words), tip, origin and stride of the marks below, top (least value at the top),
// most and step (of the marks at the side), ends (whether the legend tells the last values), height, empty, say}
function lineChart(place, xs, series, how) {
  place.classList.add("chart");
  const chart = place.chart || (place.chart = { cursor: null });
  chart.draw = () => drawLines(place, chart, xs, series, how);
  if (!chart.watcher) {
    chart.watcher = new ResizeObserver(() => chart.draw());
    chart.watcher.observe(place);
  }
  chart.draw();
}

function drawLines(place, chart, xs, series, how) {
  const width = Math.max(place.clientWidth, 240), height = how.height || 190;
  const shown = series.flatMap((each) => each.values.filter((value) => value != null));
  if (xs.length < 2 || !shown.length) {
    place.replaceChildren(el("p", { class: "empty", css: { minHeight: `${height}px` } }, how.empty || "Nothing to draw yet."));
    return;
  }
  const step = how.step || niceStep(Math.max(...shown, how.top || 1), 4);
  const most = how.most || Math.ceil(Math.max(...shown, how.top || 1) / step - 1e-9) * step;
  const marks = Array.from({ length: Math.round(most / step) + 1 }, (_, index) => [index * step, (how.y || short)(index * step)]);
  const left = 14 + 6.6 * Math.max(3, ...marks.map((mark) => mark[1].length)), right = 12, top = 8, bottom = 24;
  const first = xs[0], last = xs[xs.length - 1];
  const across = (x) => left + (x - first) / (last - first || 1) * (width - left - right);
  const up = (y) => height - bottom - y / most * (height - top - bottom);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": how.label });
  for (const [y, words] of marks) {
    picture.append(svg("line", { x1: left, x2: width - right, y1: up(y), y2: up(y), class: y ? "grid" : "axis" }));
    picture.append(svg("text", { x: left - 8, y: up(y) + 4, "text-anchor": "end" }, words));
  }
  const origin = how.origin === undefined ? first : how.origin;
  const stride = how.stride || spanStep(last - origin, Math.max(2, Math.min(7, Math.floor(width / 90))));
  for (let x = origin; x <= last + 1e-9; x += stride) {
    if (x < first - stride / 50) continue;
    const place = across(Math.max(x, first)), anchor = place < left + 14 ? "start" : place > width - right - 14 ? "end" : "middle";
    picture.append(svg("text", { x: place, y: height - 6, "text-anchor": anchor }, how.x(x)));
  }
  for (const each of series) {
    let path = "", begun = null, end = null;
    each.values.forEach((value, place) => {
      if (value == null) return;
      path += `${path ? "L" : "M"}${across(xs[place]).toFixed(1)} ${up(value).toFixed(1)}`;
      begun = begun === null ? xs[place] : begun;
      end = xs[place];
    });
    if (each.fill && path) {
      picture.append(svg("path", { d: `${path}L${across(end)} ${up(0)}L${across(begun)} ${up(0)}Z`, fill: color(each.color), opacity: 0.13 }));
    }
    picture.append(svg("path", { d: path, fill: "none", stroke: color(each.color), "stroke-width": 2, "stroke-linejoin": "round", "stroke-dasharray": each.dashed ? "2 5" : null, "stroke-linecap": "round" }));
  }
  const cross = svg("g", {});
  picture.append(cross);
  const tip = el("div", { class: "tip", hidden: true });
  const point = (index) => {
    chart.cursor = index;
    cross.replaceChildren();
    tip.hidden = index === null;
    if (index === null) return;
    const x = across(xs[index]);
    cross.append(svg("line", { x1: x, x2: x, y1: top, y2: height - bottom, class: "cross" }));
    const rows = series.filter((each) => each.values[index] != null).map((each) => {
      cross.append(svg("circle", { cx: x, cy: up(each.values[index]), r: 3.5, fill: color(each.color) }));
      return legendItem(each, (how.y || count)(each.values[index]));
    });
    tip.replaceChildren((how.tip || how.x)(xs[index]), el("ul", { class: "legend" }, rows));
    const share = place.clientWidth / width;
    tip.style.left = x > width * 0.6 ? "auto" : `${x * share + 12}px`;
    tip.style.right = x > width * 0.6 ? `${(width - x) * share + 12}px` : "auto";
  };
  const nearest = (event) => {
    const box = picture.getBoundingClientRect();
    const x = first + ((event.clientX - box.left) / box.width * width - left) / (width - left - right) * (last - first);
    let best = 0;
    xs.forEach((each, index) => { if (Math.abs(each - x) < Math.abs(xs[best] - x)) best = index; });
    point(best);
  };
  picture.addEventListener("pointermove", nearest);
  picture.addEventListener("pointerdown", nearest);
  picture.addEventListener("pointerleave", () => point(null));
  picture.addEventListener("blur", () => point(null));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -xs.length, End: xs.length }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = chart.cursor === null ? (step > 0 ? -1 : xs.length) : chart.cursor;
    point(Math.max(0, Math.min(xs.length - 1, from + step)));
    if (how.say) how.say(tip.textContent);
  });
  const had = document.activeElement && place.contains(document.activeElement);
  const ends = series.filter((each) => !each.quiet).map((each) => legendItem(each, how.ends ? (how.y || count)(each.values.findLast((value) => value != null) || 0) : null));
  place.replaceChildren(el("ul", { class: "legend" }, ends), picture, tip);
  if (had) picture.focus({ preventScroll: true });
  point(chart.cursor !== null && chart.cursor < xs.length ? chart.cursor : null);
}

function legendItem(each, value) {
  const key = each.dashed
    ? svg("svg", { width: 14, height: 4, "aria-hidden": "true", css: { width: "14px" } }, svg("line", { x1: 1, x2: 14, y1: 2, y2: 2, stroke: color(each.color), "stroke-width": 2, "stroke-dasharray": "2 4", "stroke-linecap": "round" }))
    : el("span", { class: `key ${each.block ? "block " : ""}${each.color}`, "aria-hidden": "true" });
  return el("li", {}, key, each.name, value === null || value === undefined ? null : el("b", {}, value));
}

// -- a table whose rows have bars ------------------------------------------------------------------------

// rows: [{name, parts: [{color, value}], value, title}]; the longest bar fills its cell.
function bars(place, heads, rows, legend) {
  const total = (row) => row.parts.reduce((sum, part) => sum + part.value, 0);
  const most = Math.max(1, ...rows.map(total));
  const body = rows.map((row) => el("tr", {},
    el("td", { class: "name" }, typeof row.name === "string" ? el("span", { class: "url", title: row.title || row.name }, row.name) : row.name),
    el("td", {}, el("div", { class: "bar", "aria-hidden": "true" }, row.parts.filter((part) => part.value).map((part) =>
      el("i", { class: part.color, css: { width: `${100 * part.value / most}%` } })))),
    el("td", { class: "n" }, row.value)));
  const head = el("tr", {}, heads.map((name, index) => el("th", { scope: "col", class: ["name", "", "n"][index] }, el("span", { class: "hidden" }, name))));
  place.replaceChildren(
    legend ? el("ul", { class: "legend" }, legend.map((each) => legendItem({ ...each, block: true }))) : "",
    rows.length ? el("table", { class: "bars" }, el("thead", {}, head), el("tbody", {}, body)) : el("p", { class: "empty" }, "None so far."));
}

// -- hosts and the links between them --------------------------------------------------------------------

// hosts: [{name, pages}], links: [[from, to, how many]]
function hostGraph(place, hosts, links, say) {
  const size = 560, middle = size / 2, ring = 168;
  const most = Math.max(1, ...hosts.map((host) => host.pages));
  const heaviest = Math.max(1, ...links.map((link) => link[2]));
  const spots = hosts.map((host, index) => {
    const angle = 2 * Math.PI * index / hosts.length - Math.PI / 2;
    return { angle, x: middle + ring * Math.cos(angle), y: middle + ring * Math.sin(angle), r: 5 + 15 * Math.sqrt(host.pages / most) };
  });
  const picture = svg("svg", { viewBox: `-70 0 ${size + 140} ${size}`, class: "graph", role: "group", "aria-label": "Hosts, and the links between them" });
  const curves = links.map(([from, to, number]) => {
    const a = spots[from], b = spots[to];
    const bend = 0.28, x = middle + (a.x + b.x - size) * bend, y = middle + (a.y + b.y - size) * bend;
    const side = from < to ? 9 : -9;
    return svg("path", { d: `M${a.x} ${a.y}Q${x + side} ${y + side} ${b.x} ${b.y}`, fill: "none", stroke: color("blue"), "stroke-linecap": "round", "stroke-width": 1 + 5 * Math.sqrt(number / heaviest), opacity: 0.22 + 0.5 * Math.sqrt(number / heaviest) });
  });
  const choose = (chosen) => {
    picture.classList.toggle("some", chosen !== null);
    links.forEach((link, index) => curves[index].classList.toggle("pale", chosen !== null && link[0] !== chosen && link[1] !== chosen));
    if (chosen === null) { say(""); return; }
    const sum = (end) => links.filter((link) => link[end] === chosen).reduce((total, link) => total + link[2], 0);
    say(`${hosts[chosen].name}: ${count(hosts[chosen].pages)} pages, ${count(sum(0))} links to other hosts here, ${count(sum(1))} from them.`);
  };
  const nodes = hosts.map((host, index) => {
    const spot = spots[index], out = ring + spot.r + 9;
    const anchor = Math.cos(spot.angle) > 0.15 ? "start" : Math.cos(spot.angle) < -0.15 ? "end" : "middle";
    const name = host.name.length > 26 ? `${host.name.slice(0, 12)}..${host.name.slice(-12)}` : host.name;
    return svg("g", { tabindex: 0, role: "img", class: "pick", "aria-label": `${host.name}, ${count(host.pages)} pages`, onmouseenter: () => choose(index), onmouseleave: () => choose(null), onfocus: () => choose(index), onblur: () => choose(null) },
      svg("title", {}, host.name),
      svg("circle", { cx: spot.x, cy: spot.y, r: spot.r, fill: color("green"), stroke: color("card"), "stroke-width": 2 }),
      svg("text", { x: middle + (ring + 20) * Math.cos(spot.angle) + spot.r * Math.cos(spot.angle) / 3, y: middle + out * Math.sin(spot.angle) + 4, "text-anchor": anchor }, name));
  });
  picture.append(...curves, ...nodes);
  place.replaceChildren(picture);
}
