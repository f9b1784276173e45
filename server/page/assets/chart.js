// A curve that can be zoomed, drawn as SVG. Text is set as text, never as markup.

const NS = "http://www.w3.org/2000/svg";
const ROOM = { left: 62, right: 12, top: 10, bottom: 34 };

export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(2);
  const options = Math.abs(value) >= 1e4 ? { notation: "compact", maximumSignificantDigits: 4 } : { maximumSignificantDigits: 4 };
  return new Intl.NumberFormat("en", options).format(value);
}

function make(name, attributes = {}, text = "") {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

function linearTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((s) => s * power >= rough) * power;
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) ticks.push(k * step || 0);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  const few = Math.log10(high / low) < 2;
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++)
    for (const s of few ? [1, 2, 5] : [1]) if (s * 10 ** k >= low && s * 10 ** k <= high) ticks.push(s * 10 ** k);
  return ticks.length > 1 ? ticks : linearTicks(low, high, 4);
}

export class Chart {
  // about: {id, title, height, log, cuts: whether the start is cut off, zoomed(range or null)}
  constructor(place, about) {
    this.about = about;
    this.log = about.log || false;
    this.points = []; // {x, y}
    this.marks = []; // {x, text}
    this.cursor = -1;
    this.svg = make("svg", { role: "img", tabindex: "0", height: about.height });
    this.readout = document.createElement("output");
    place.replaceChildren(this.svg, this.readout);
    new ResizeObserver(() => this.draw()).observe(place);
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("pointermove", (event) => this.move(event));
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointerup", (event) => this.release(event));
    this.svg.addEventListener("pointerleave", () => this.point(-1));
  }

  show(points, marks, range, axis) {
    Object.assign(this, { points, marks, range, axis });
    this.cursor = Math.min(this.cursor, points.length - 1);
    this.draw();
  }

  bounds() {
    const xs = this.points.map((p) => p.x);
    const [first, last] = this.range || [xs[0], xs[xs.length - 1]];
    const seen = this.points.filter((p) => p.x >= first && p.x <= last);
    // What lies above all losses after the first tenth is cut off, unless the axis is logarithmic.
    const settled = this.log || this.range || !this.about.cuts ? seen : seen.slice(Math.floor(seen.length / 10));
    const ys = settled.map((p) => p.y).filter((y) => !this.log || y > 0);
    let low = Math.min(...ys), high = Math.max(...ys);
    if (!(low < high)) [low, high] = this.log ? [low / 2, low * 2] : [low - (Math.abs(low) / 10 || 0.5), high + (Math.abs(high) / 10 || 0.5)];
    const room = 0.05 * (high - low);
    return this.log ? { first, last, low, high } : { first, last, low: low - room, high: high + room };
  }

  draw() {
    const width = this.svg.clientWidth, height = this.about.height;
    this.svg.setAttribute("aria-label", this.described());
    if (!width || this.points.length < 1) {
      this.svg.replaceChildren(make("text", { x: 20, y: 30 }, this.about.title + ": no rounds yet"));
      return;
    }
    const b = this.bounds(), parts = [];
    const span = b.last - b.first || 1;
    const across = (x) => ROOM.left + ((x - b.first) / span) * (width - ROOM.left - ROOM.right);
    const scale = this.log ? Math.log : (y) => y;
    const up = (y) => {
      const part = (scale(y) - scale(b.low)) / (scale(b.high) - scale(b.low));
      return height - ROOM.bottom - Math.max(-2, Math.min(2, part)) * (height - ROOM.top - ROOM.bottom);
    };
    Object.assign(this, { across, up, b, width });
    for (const y of this.log ? logTicks(b.low, b.high) : linearTicks(b.low, b.high, 4)) {
      parts.push(make("line", { class: "grid", x1: ROOM.left, x2: width - ROOM.right, y1: up(y), y2: up(y) }));
      parts.push(make("text", { x: ROOM.left - 6, y: up(y) + 4, "text-anchor": "end" }, short(y)));
    }
    for (const x of linearTicks(b.first, b.last, Math.max(2, Math.floor(width / 90))))
      parts.push(make("text", { x: across(x), y: height - ROOM.bottom + 16, "text-anchor": "middle" }, this.axis.unit(x)));
    parts.push(make("text", { x: width - ROOM.right, y: height - 4, "text-anchor": "end" }, this.axis.label));
    parts.push(make("text", { x: ROOM.left, y: height - 4 }, this.about.title));
    const clip = make("clipPath", { id: this.about.id + "-clip" });
    clip.append(make("rect", { x: ROOM.left, y: 0, width: Math.max(0, width - ROOM.left - ROOM.right), height: height - ROOM.bottom }));
    const inside = make("g", { "clip-path": `url(#${this.about.id}-clip)` });
    const drawn = this.points.filter((p) => !this.log || p.y > 0);
    inside.append(make("path", { class: "curve", d: "M" + drawn.map((p) => `${across(p.x).toFixed(1)} ${up(p.y).toFixed(1)}`).join("L") }));
    if (drawn.length) inside.append(make("circle", { class: "dot", r: 3.5, cx: across(drawn.at(-1).x), cy: up(drawn.at(-1).y) }));
    for (const mark of this.marks) {
      const line = make("line", { class: "mark", x1: across(mark.x), x2: across(mark.x), y1: height - ROOM.bottom - 9, y2: height - ROOM.bottom });
      line.append(make("title", {}, mark.text));
      inside.append(line);
    }
    this.band = make("rect", { class: "chosen", y: 0, height: height - ROOM.bottom, width: 0 });
    this.line = make("line", { class: "cursor", y1: 0, y2: height - ROOM.bottom, visibility: "hidden" });
    inside.append(this.band, this.line);
    const above = [];
    if (this.points[0].x >= b.first && this.points[0].y > b.high) above.push(make("text", { x: ROOM.left + 110, y: ROOM.top + 12 }, `begins at ${short(this.points[0].y)}`));
    this.svg.replaceChildren(clip, ...parts, inside, ...above);
    if (this.cursor >= 0) this.point(this.cursor);
  }

  described() {
    if (!this.points.length) return `${this.about.title}, no rounds yet`;
    const first = this.points[0], last = this.points.at(-1);
    return `${this.about.title} against ${this.axis.label}, from ${short(first.y)} to ${short(last.y)} at ${this.axis.unit(last.x)}`;
  }

  point(index) {
    this.cursor = index;
    if (!this.line) return;
    const p = this.points[index];
    this.line.setAttribute("visibility", p ? "visible" : "hidden");
    this.readout.textContent = p ? `round ${p.round + 1}: ${short(p.y)} at ${this.axis.unit(p.x)} ${this.axis.label}` : "";
    if (p) for (const side of ["x1", "x2"]) this.line.setAttribute(side, this.across(p.x));
  }

  at(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const part = (x - ROOM.left) / (this.width - ROOM.left - ROOM.right);
    return this.b.first + Math.max(0, Math.min(1, part)) * (this.b.last - this.b.first);
  }

  nearest(x) {
    let best = 0;
    this.points.forEach((p, i) => { if (Math.abs(p.x - x) < Math.abs(this.points[best].x - x)) best = i; });
    return best;
  }

  move(event) {
    if (!this.points.length || !this.b) return;
    const x = this.at(event);
    this.point(this.nearest(x));
    if (this.from === undefined) return;
    const [low, high] = [this.across(Math.min(this.from, x)), this.across(Math.max(this.from, x))];
    this.band.setAttribute("x", low);
    this.band.setAttribute("width", high - low);
  }

  press(event) {
    if (!this.points.length || !this.b || event.button !== 0) return;
    this.svg.setPointerCapture(event.pointerId);
    this.from = this.at(event);
  }

  release(event) {
    if (this.from === undefined) return;
    const [from, to] = [this.from, this.at(event)].sort((a, b) => a - b);
    this.from = undefined;
    if (this.across(to) - this.across(from) > 8) this.about.zoomed([from, to]);
    else this.draw();
  }

  zoom(factor) {
    if (!this.b) return;
    const centre = this.cursor >= 0 ? this.points[this.cursor].x : (this.b.first + this.b.last) / 2;
    const half = ((this.b.last - this.b.first) * factor) / 2;
    const [least, most] = [this.points[0].x, this.points.at(-1).x];
    const range = [Math.max(centre - half, this.whole ? this.whole[0] : least), Math.min(centre + half, this.whole ? this.whole[1] : most)];
    this.about.zoomed(factor > 1 && this.whole && range[0] <= this.whole[0] && range[1] >= this.whole[1] ? null : range);
  }

  key(event) {
    const last = this.points.length - 1;
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };
    if (event.ctrlKey || event.metaKey || event.altKey || last < 0) return;
    if (event.key in moves) this.point(Math.max(0, Math.min(last, (this.cursor < 0 ? last : this.cursor) + moves[event.key])));
    else if (event.key === "Home") this.point(0);
    else if (event.key === "End") this.point(last);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.about.zoomed(null);
    else return;
    event.preventDefault();
  }
}
