// What a sweep holds and what is chosen of it: no drawing here.
"use strict";
(() => {
  // front marks the Pareto front among points [{x, y}]: in the textbook sense, a point is off it if another one is at
  // least as good in both coordinates and better in one. lowX and lowY say that low is good.
  const front = (points, lowX, lowY) => {
    const sx = lowX ? -1 : 1, sy = lowY ? -1 : 1;
    const order = [...points].sort((a, b) => sx * (b.x - a.x) || sy * (b.y - a.y));
    const on = new Set();
    let best = -Infinity, last = null;
    for (const p of order) {
      const y = sy * p.y;
      if (y > best || last && p.x === last.x && p.y === last.y) {
        on.add(p);
        best = y;
        last = p;
      }
    }
    return on;
  };

  const keeps = (op, value, limit) => {
    if (typeof value !== "number") return false; // what is not known keeps no bound
    switch (op) {
      case "<=": return value <= limit;
      case "<": return value < limit;
      case ">=": return value >= limit;
      default: return value > limit;
    }
  };

  // model(data) answers all questions of the page; state is what the reader chose.
  const model = (data) => {
    const columns = new Map(data.columns.map((c) => [c.name, c]));
    const state = {
      scenario: data.scenario, x: data.x, y: data.y, logX: false, logY: false,
      pd: true, sa: true, directories: true, front: true, labels: true,
      slos: data.slos.map((s) => ({ ...s })), hidden: new Set(),
    };
    const cell = (name, run) => {
      const c = columns.get(name);
      return c ? c.cells[run] : null;
    };
    const scenario = () => data.scenarios[state.scenario];
    const several = () => new Set(scenario().runs.map((r) => data.directory[r])).size > 1;

    // series are all configurations of the scenario, shown or not: {key, title, pd, runs, shown}.
    const series = () => {
      const list = new Map();
      const apart = state.directories && several();
      for (const run of scenario().runs) {
        const key = data.configuration[run] + (apart ? "/" + data.directory[run] : "");
        if (!list.has(key)) {
          const name = data.configurations[data.configuration[run]];
          list.set(key, { key, title: apart ? name + " in " + data.directories[data.directory[run]] : name, pd: data.pd[run], runs: [], index: list.size });
        }
        list.get(key).runs.push(run);
      }
      for (const s of list.values()) {
        s.shown = !state.hidden.has(s.key) && (s.pd ? state.pd : state.sa);
        if (!apart) s.runs.sort((a, b) => load(a) - load(b) || a - b);
      }
      return [...list.values()];
    };
    const load = (run) => {
      const c = cell("Concurrency", run);
      return c === "inf" ? 1e300 : typeof c === "number" ? c : 2e300;
    };
    const meets = (run) => state.slos.every((s) => s.limit === null || keeps(s.op, cell(s.column, run), s.limit));
    const drawable = (v, log) => typeof v === "number" && Math.abs(v) <= 1e300 && (!log || v >= 1e-300); // axes go further, and have to end

    // points are the dots of the shown series: {run, x, y, label, meets, front, series}, and how many runs have none.
    const points = () => {
      const list = [];
      let missing = 0;
      for (const s of series()) {
        if (!s.shown) continue;
        for (const run of s.runs) {
          const x = cell(state.x, run), y = cell(state.y, run);
          if (!drawable(x, state.logX) || !drawable(y, state.logY)) { missing++; continue; }
          const c = cell("Concurrency", run);
          list.push({ run, x, y, label: c === null ? "" : c === "inf" ? "\u221e" : String(typeof c === "number" && c % 1 ? +c.toPrecision(4) : c), meets: meets(run), off: data.off[run], front: false, series: s });
        }
      }
      const bx = columns.get(state.x).better, by = columns.get(state.y).better;
      const directed = bx !== 0 && by !== 0;
      if (directed && state.front) for (const p of front(list.filter((p) => p.meets && !p.off), bx < 0, by < 0)) p.front = true;
      return { list, missing, directed };
    };

    // stairs are the corners of the border of what the front dominates.
    const stairs = (list) => {
      const on = list.filter((p) => p.front).sort((a, b) => a.x - b.x || a.y - b.y);
      const corners = [];
      on.forEach((p, i) => {
        if (i) corners.push(columns.get(state.x).better > 0 ? [on[i - 1].x, p.y] : [p.x, on[i - 1].y]);
        corners.push([p.x, p.y]);
      });
      return corners;
    };
    return { data, state, columns, cell, scenario, series, points, stairs, meets, several, numbers: data.columns.filter((c) => !c.text) };
  };
  perigee.sweep = { model, front };
})();
