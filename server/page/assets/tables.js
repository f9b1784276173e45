// Tables of clients, lost slots, changes, rounds, keys and files. Text from clients is set as text alone.

import { short } from "./chart.js";

const MOST_ROWS = 100;

export function clock(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const s = Math.round(seconds), pad = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${pad(s % 60)}` : `${Math.floor(s / 3600)}:${pad(Math.floor(s / 60) % 60)}:${pad(s % 60)}`;
}

export function size(bytes) {
  const unit = bytes >= 1e9 ? [1e9, "GB"] : bytes >= 1e6 ? [1e6, "MB"] : bytes >= 1e3 ? [1e3, "kB"] : [1, "B"];
  return `${short(bytes / unit[0])} ${unit[1]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const of = (n) => new Intl.NumberFormat("en", { maximumSignificantDigits: 3 }).format(n);
  return seconds < 1 ? `${of(1000 * seconds)} ms` : `${of(seconds)} s`;
}

function ago(then, now) {
  if (then === null) return "–";
  const s = Math.max(0, now - then);
  return s < 2 ? "now" : s < 120 ? `${Math.round(s)} s ago` : s < 7200 ? `${Math.round(s / 60)} min ago` : `${Math.round(s / 3600)} h ago`;
}

const lostSlots = (row) => Object.values(row.lost).reduce((a, b) => a + b, 0);
const why = (row) => Object.entries(row.lost).map(([cause, n]) => `${n} ${cause}`).join(", ");
const STATE = { true: "connected", false: "away", null: "" };

// title, class, value to sort by, text
const COLUMNS = [
  ["client", "", (r) => r.name, (r) => r.name],
  ["state", "", (r) => STATE[r.connected], (r) => STATE[r.connected]],
  ["last seen", "", (r) => r.seen ?? 0, (r, now) => ago(r.seen, now)],
  ["rounds", "number", (r) => r.rounds, (r) => String(r.rounds)],
  ["slots", "number", (r) => r.slots, (r) => String(r.slots)],
  ["lost", "number", lostSlots, (r) => String(lostSlots(r))],
  ["why", "text", why, (r) => why(r) + (r.reason ? `; last: ${r.reason}` : "")],
  ["a slot takes", "number", (r) => r.seconds / (r.slots || 1), (r) => (r.slots ? span(r.seconds / r.slots) : "–")],
  ["latest", "number", (r) => r.latest ?? -1, (r) => span(r.latest)],
  ["up", "number", (r) => r.bytes_up, (r) => size(r.bytes_up)],
  ["down", "number", (r) => r.bytes_down, (r) => size(r.bytes_down)],
  ["move / median", "number", (r) => r.times ?? -1, (r) => short(r.times)],
  ["longest", "number", (r) => r.worst ?? -1, (r) => short(r.worst) + (r.outliers ? ` (outlier: ${r.outliers})` : "")],
];

export class ClientTable {
  constructor(table) {
    this.body = table.tBodies[0];
    this.rows = new Map();
    this.by = 0;
    this.falling = false;
    this.heads = COLUMNS.map(([title, kind], index) => {
      const head = document.createElement("th"), button = document.createElement("button");
      head.scope = "col";
      head.className = kind === "number" ? "number" : "";
      button.type = "button";
      button.textContent = title;
      button.addEventListener("click", () => this.sortBy(index));
      head.append(button);
      table.tHead.rows[0].append(head);
      return head;
    });
    this.sortBy(0, false);
  }

  clear() {
    this.rows.clear();
    this.body.replaceChildren();
  }

  sortBy(index, falling) {
    this.falling = falling ?? (index === this.by ? !this.falling : COLUMNS[index][1] === "number");
    this.by = index;
    this.heads.forEach((head, i) => head.setAttribute("aria-sort", i === index ? (this.falling ? "descending" : "ascending") : "none"));
    this.order();
  }

  order() {
    const value = COLUMNS[this.by][2], sign = this.falling ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    const sorted = [...this.rows.values()].sort((a, b) => sign * compare(value(a.cells), value(b.cells)) || compare(a.cells.name, b.cells.name));
    const shown = this.body.rows;
    if (sorted.some((row, i) => shown[i] !== row.line)) this.body.replaceChildren(...sorted.map((row) => row.line));
  }

  update(changed, now) {
    for (const cells of changed) {
      let row = this.rows.get(cells.name);
      if (!row) {
        row = { line: document.createElement("tr") };
        COLUMNS.forEach(([, kind], i) => {
          const cell = document.createElement(i ? "td" : "th");
          if (!i) cell.scope = "row";
          cell.className = kind;
          row.line.append(cell);
        });
        this.rows.set(cells.name, row);
      }
      row.cells = cells;
      row.line.dataset.connected = String(cells.connected);
      this.fill(row, now);
    }
    if (changed.length) this.order();
  }

  fill(row, now) {
    COLUMNS.forEach(([, , , text], i) => {
      const cell = row.line.cells[i], shown = text(row.cells, now);
      if (cell.textContent !== shown) cell.textContent = shown;
    });
  }

  tick(now) {
    for (const row of this.rows.values()) {
      const cell = row.line.cells[2], shown = ago(row.cells.seen, now);
      if (cell.textContent !== shown) cell.textContent = shown;
    }
  }
}

export function addRows(body, lines, textColumns = []) {
  for (const line of lines) {
    const row = body.insertRow(0);
    line.forEach((text, i) => {
      const cell = row.insertCell();
      cell.textContent = text;
      if (textColumns.includes(i)) cell.className = "text";
    });
  }
  while (body.rows.length > MOST_ROWS) body.deleteRow(-1);
  body.closest(".scroll").hidden = !body.rows.length;
}

function fill(id, pairs) {
  const rows = pairs.map(([key, value]) => {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    head.scope = "row";
    head.textContent = key;
    cell.textContent = typeof value === "string" ? value || '""' : JSON.stringify(value);
    cell.className = "text";
    row.append(head, cell);
    return row;
  });
  document.querySelector(`#${id} tbody`).replaceChildren(...rows);
}

export function showKeys(config) {
  for (const [id, plain] of [["chosen", false], ["defaults", true]])
    fill(id, config.filter(([, , isDefault]) => isDefault === plain));
}

export function showSettings(settings) {
  document.getElementById("settings").hidden = !settings.length;
  fill("settings", settings);
}

export function showFiles(files) {
  document.getElementById("files").replaceChildren(...files.map((name) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = `/files/${name}`;
    link.download = name;
    link.textContent = name;
    item.append(link);
    return item;
  }));
}
