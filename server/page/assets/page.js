// The page of one run: follows /events, and draws what they say.

import { Chart, short } from "./chart.js";
import { ClientTable, addRows, clock, showFiles, showKeys, showSettings, size, span } from "./tables.js";

const MOST_POINTS = 4000;
const LATEST = 20;
const byId = (id) => document.getElementById(id);
const AXES = {
  evaluations: { label: "evaluations", unit: short },
  seconds: { label: "time", unit: clock },
  bytes: { label: "bytes up and down", unit: size },
  round: { label: "rounds", unit: (x) => short(x) },
};
const run = { points: [], detail: null, range: null, changes: [], status: {}, last: "", now: 0, heard: 0, logChosen: false };
const clients = new ClientTable(byId("clients"));
const charts = ["loss", "step", "weight"].map((id) => new Chart(byId(`${id}-chart`), {
  id, title: { loss: "training loss", step: "step size", weight: "subspace weight (guide)" }[id],
  height: id === "loss" ? 340 : 180, log: id === "step", cuts: id === "loss", zoomed: (range) => zoom(range),
}));

function asPoint([round, evaluations, seconds, bytes, loss, full, step, weight, replies, lost]) {
  return { round, evaluations, seconds, bytes, loss, full, step, weight, replies, lost };
}

function axisName() {
  return document.querySelector("input[name=against]:checked").value;
}

// Files count rounds from 0, people from 1: the start is at 0.
function along(point, name) {
  return point[name] + (name === "round");
}

// Only full evaluations are drawn, where there are two of them or more: probes are at other x.
function drawn(points) {
  const known = points.filter((p) => p.loss !== null), full = known.filter((p) => p.full);
  return full.length > 1 ? full : known;
}

function draw() {
  const name = axisName(), axis = AXES[name];
  const points = run.range && run.detail ? run.detail : run.points;
  const curves = [drawn(points).map((p) => [p, p.loss]), points.map((p) => [p, p.step]), points.map((p) => [p, p.weight])];
  const marks = run.changes.map((c) => ({ x: placeOf(c.round, name), text: `round ${c.round + 1}: ${c.what} ${short(c.before)} to ${short(c.after)}: ${c.why}` }));
  if (!run.logChosen) {
    const later = curves[0].slice(Math.floor(curves[0].length / 10)).map(([, y]) => y);
    byId("log").checked = later.length > 1 && Math.min(...later) > 0 && Math.max(...later) > 20 * Math.min(...later);
  }
  charts[0].log = byId("log").checked;
  const whole = run.points.length ? [along(run.points[0], name), along(run.points.at(-1), name)] : null;
  charts.forEach((chart, i) => {
    chart.whole = whole;
    const shown = curves[i].filter(([, y]) => y !== null).map(([p, y]) => ({ x: along(p, name), y, round: p.round }));
    if (!i && run.status.initial != null && points[0]?.round === 0) shown.unshift({ x: 0, y: run.status.initial, round: -1 });
    chart.show(shown, marks.filter((m) => m.x !== null), run.range, axis);
  });
}

function placeOf(round, name) {
  const near = run.points.find((p) => p.round >= round);
  return near ? along(near, name) : null;
}

async function zoom(range) {
  run.range = range;
  run.detail = null;
  draw();
  if (!range) return;
  const name = axisName();
  const inside = run.points.filter((p) => along(p, name) >= range[0] && along(p, name) <= range[1]);
  const first = run.points.findLast((p) => along(p, name) < range[0]) ?? run.points[0];
  const last = run.points.find((p) => along(p, name) > range[1]) ?? run.points.at(-1);
  if (!first || !last) return;
  const answer = await fetch(`/points?from=${first.round}&to=${last.round}`).catch(() => null);
  if (!answer?.ok || run.range !== range) return;
  const detail = (await answer.json()).map(asPoint);
  if (detail.length >= inside.length) run.detail = detail;
  draw();
}

function fewer(points) {
  const kept = [points[0]];
  for (let i = 1; i < points.length - 1; i += 4) {
    const part = points.slice(i, Math.min(i + 4, points.length - 1)).sort((a, b) => (a.loss ?? Infinity) - (b.loss ?? Infinity));
    kept.push(...[part[0], part.at(-1)].sort((a, b) => a.round - b.round));
  }
  return [...kept, points.at(-1)];
}

function facts(s) {
  const of = s.of_rounds ? `${s.rounds} of ${s.of_rounds}` : String(s.rounds);
  const seconds = s.rounds ? s.seconds / s.rounds : null;
  return [
    ["loss", short(s.loss)], ["best loss", short(s.best)], ["loss at the start", short(s.initial)], ["rounds", of],
    ["evaluations", s.of_evaluations ? `${short(s.evaluations)} of ${short(s.of_evaluations)}` : short(s.evaluations)],
    ["time", clock(s.seconds)], ["time left", s.state === "running" ? clock(s.seconds_left) : "–"], ["a round takes", span(seconds)],
    ["up", size(s.bytes_up)], ["down", size(s.bytes_down)], ["clients connected", s.connected === null ? "–" : String(s.connected)],
    ["lost slots", String(s.failed)],
  ];
}

function showStatus(s) {
  run.status = s;
  byId("name").textContent = s.name;
  document.title = `${s.name}: ${s.state}, ${s.rounds} rounds, loss ${short(s.loss)}`;
  say(s.state);
  byId("share").value = s.share;
  const place = byId("facts");
  facts(s).forEach(([title, text], i) => {
    if (!place.children[i]) {
      const box = document.createElement("div");
      box.append(document.createElement("dt"), document.createElement("dd"));
      place.append(box);
      box.firstChild.textContent = title;
    }
    const cell = place.children[i].lastChild;
    if (cell.textContent !== text) cell.textContent = text;
  });
  const causes = Object.entries(s.causes).map(([cause, n]) => `${n} ${cause}`).join(", ");
  byId("causes").textContent = causes || "none";
  document.querySelector("#changes summary span").textContent = s.interventions ? String(s.interventions) : "none";
}

function say(state) {
  const badge = byId("state");
  if (badge.dataset.state === state) return;
  badge.dataset.state = state;
  badge.textContent = state === "lost" ? "no connection" : state;
  byId("live").textContent = {
    waiting: "The run waits for its clients.", running: "", finished: "The run is over.",
    stopped: "The run was interrupted; resume continues it.",
    lost: "The server does not answer. The page tries again every second; zofedht-server watch shows the folder of a run that is over.",
  }[state] ?? "";
}

function about(config) {
  const value = Object.fromEntries(config.map(([key, v]) => [key, v]));
  const what = value.objective || `${value.dataset}, ${value.model}, ${value.partition}`;
  byId("what").textContent = config.length ? `${value.algorithm} on ${what}; ${value["num-clients"]} clients, ${value["clients-per-round"]} a round; seed ${value.seed}` : "";
}

function take(message) {
  if (message.reset) Object.assign(run, { points: [], detail: null, range: null });
  if (message.lists) {
    run.changes = [];
    clients.clear();
    for (const id of ["failures", "changes"]) document.querySelector(`#${id} tbody`).replaceChildren();
  }
  if (message.now) [run.now, run.heard] = [message.now, performance.now()];
  if (message.status) showStatus(message.status);
  say(run.status.state);
  if (message.points) {
    run.points.push(...message.points.map(asPoint));
    if (run.points.length > MOST_POINTS) run.points = fewer(run.points);
    const latest = run.points.slice(-LATEST);
    const body = document.querySelector("#rounds tbody");
    body.replaceChildren();
    addRows(body, latest.map((p) => [p.round + 1, short(p.loss) + (p.full ? "" : " (probes)"), short(p.evaluations), short(p.step), p.replies, p.lost]));
  }
  if (message.clients) clients.update(message.clients, serverTime());
  if (message.hidden !== undefined) byId("hidden").textContent = message.hidden ? `and ${message.hidden} clients more, which are in clients.jsonl` : "";
  if (message.failures) addRows(document.querySelector("#failures tbody"), message.failures.map((f) => [f.round + 1, f.client, f.cause, (f.step === null ? "" : `step ${f.step + 1}: `) + f.reason]), [3]);
  if (message.interventions) {
    run.changes.push(...message.interventions);
    run.changes = run.changes.slice(-200);
    addRows(document.querySelector("#changes tbody"), message.interventions.map((c) => [c.round + 1, c.what, short(c.before), short(c.after), c.why]), [4]);
  }
  if (message.config) { showKeys(message.config); about(message.config); }
  if (message.settings) showSettings(message.settings);
  if (message.files) showFiles(message.files);
  if (message.points || message.interventions || message.reset || message.status?.initial !== undefined) draw();
  document.body.dataset.points = String(run.points.length); // that the page is up
}

const serverTime = () => run.now + (performance.now() - run.heard) / 1000;

function follow() {
  const source = new EventSource(run.last ? `/events?after=${encodeURIComponent(run.last)}` : "/events");
  source.onmessage = (event) => {
    run.last = event.lastEventId || run.last;
    take(JSON.parse(event.data));
  };
  source.onerror = () => {
    say("lost");
    source.close();
    setTimeout(follow, 1000);
  };
}

document.querySelectorAll("input[name=against]").forEach((input) => input.addEventListener("change", () => zoom(null)));
byId("log").addEventListener("change", () => { run.logChosen = true; draw(); });
byId("in").addEventListener("click", () => charts[0].zoom(0.5));
byId("out").addEventListener("click", () => charts[0].zoom(2));
byId("all").addEventListener("click", () => zoom(null));
setInterval(() => clients.tick(serverTime()), 1000);
follow();
