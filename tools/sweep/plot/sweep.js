// The page of a sweep: controls, legend and table around the chart.
"use strict";
perigee.data("sweep").then((data) => {
  const { h, sweep } = perigee;
  const find = (id) => document.getElementById(id);
  if (!data.scenarios) {
    find("summary").textContent = "No benchmark report could be read.";
    window.sweep = { ready: true };
    return;
  }
  const model = sweep.model(data), { state } = model;
  const mostRows = 300;
  let all = false, order = null; // the table: all rows, {key, down}

  const option = (value, text, now) => h("option", { value, selected: value === now }, text);
  const numbers = (now) => model.numbers.map((c) => option(c.name, c.name.replaceAll("_", " "), now));

  // Scenario and axes.
  find("scenario").append(...data.scenarios.map((s, i) => option(String(i), `${s.title} (${s.runs.length} ${s.runs.length === 1 ? "run" : "runs"})`, String(state.scenario))));
  find("scenario").addEventListener("change", (e) => { state.scenario = Number(e.target.value); state.hidden.clear(); all = false; refresh(); });
  for (const axis of ["x", "y"]) {
    find(axis).append(...numbers(state[axis]));
    find(axis).addEventListener("change", (e) => { state[axis] = e.target.value; refresh(); });
  }

  // Switches.
  const toggle = (id, text, key) => h("button", { type: "button", id, "aria-pressed": String(state[key]), onclick: (e) => {
    state[key] = !state[key];
    e.currentTarget.setAttribute("aria-pressed", String(state[key]));
    refresh();
  } }, text);
  find("switches").append(
    toggle("show-pd", "Prefill/decode apart", "pd"), toggle("show-sa", "Standalone", "sa"), toggle("seg-by-dir", "Keep directories apart", "directories"),
    toggle("show-front", "Pareto front", "front"), toggle("show-labels", "Concurrency", "labels"), toggle("log-x", "log x", "logX"), toggle("log-y", "log y", "logY"));

  // SLOs.
  const drawSLOs = () => {
    const rows = state.slos.map((s, i) => h("span", { class: "slo" },
      h("select", { "aria-label": "Column of SLO " + (i + 1), onchange: (e) => { s.column = e.target.value; refresh(); } }, ...numbers(s.column)),
      h("select", { "aria-label": "Comparison", onchange: (e) => { s.op = e.target.value; refresh(); } }, ...["<=", "<", ">=", ">"].map((o) => option(o, { "<=": "\u2264", ">=": "\u2265" }[o] || o, s.op))),
      h("input", { type: "number", step: "any", required: true, "aria-label": "Limit", value: s.limit === null ? undefined : String(s.limit), oninput: (e) => { s.limit = e.target.value === "" || !Number.isFinite(Number(e.target.value)) ? null : Number(e.target.value); refresh(); } }),
      h("button", { type: "button", "aria-label": "Remove this SLO", onclick: () => { state.slos.splice(i, 1); drawSLOs(); refresh(); } }, "\u00d7")));
    find("slos").replaceChildren(...rows, h("button", { type: "button", id: "add-slo", onclick: () => {
      const name = ["P90_TTFT_ms", "P99_TTFT_ms", "Mean_TTFT_ms"].find((n) => model.columns.has(n)) || model.numbers[0].name;
      state.slos.push({ column: name, op: model.columns.get(name).better > 0 ? ">=" : "<=", limit: null });
      drawSLOs();
      find("slos").querySelector(".slo:last-of-type input").focus();
    } }, "+ SLO"));
  };
  drawSLOs();

  // The legend switches configurations on and off.
  const sign = (s) => {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const ratio = devicePixelRatio || 1;
    canvas.width = 26 * ratio;
    canvas.height = 14 * ratio;
    const ctx = canvas.getContext("2d"), look = sweep.look(s);
    ctx.scale(ratio, ratio);
    ctx.strokeStyle = ctx.fillStyle = look.color;
    ctx.lineWidth = 1.6;
    ctx.setLineDash(look.dash);
    ctx.beginPath(); ctx.moveTo(0, 7); ctx.lineTo(26, 7); ctx.stroke();
    perigee.mark(ctx, look.shape, 13, 7, 4);
    return canvas;
  };
  const drawLegend = () => {
    const list = model.series().filter((s) => (s.pd ? state.pd : state.sa));
    const buttons = list.map((s) => h("button", { type: "button", title: s.title, "data-key": s.key, "aria-pressed": String(s.shown), onclick: () => {
      if (state.hidden.has(s.key)) state.hidden.delete(s.key); else state.hidden.add(s.key);
      refresh();
      find("configurations").querySelector(`[data-key="${s.key}"]`).focus();
    } }, sign(s), h("span", {}, s.title)));
    if (list.length > 2) {
      buttons.push(h("button", { type: "button", class: "all", id: "all-configurations", onclick: () => { state.hidden.clear(); refresh(); } }, "All"),
        h("button", { type: "button", class: "all", id: "no-configurations", onclick: () => { for (const s of list) state.hidden.add(s.key); refresh(); } }, "None"));
    }
    find("configurations").replaceChildren(...buttons);
  };

  // The table. Extra columns are chosen by the reader; axes and SLOs are always there.
  const usual = ["Concurrency", "Num_GPUs", "Output_Token_Throughput", "Thpt_per_GPU", "Thpt_per_User", "Mean_TTFT_ms", "Mean_TPOT_ms", "Mean_E2EL_ms", "Off_Front"];
  const extra = new Set(usual.filter((n) => model.columns.has(n)));
  find("column-list").append(...data.columns.map((c) => h("label", { title: c.help }, h("input", { type: "checkbox", checked: extra.has(c.name), "data-column": c.name, onchange: (e) => {
    if (e.target.checked) extra.add(c.name); else extra.delete(c.name);
    drawTable();
  } }), c.name)));
  const tableColumns = () => {
    const list = [{ key: "name", title: "Configuration", text: true, of: (r) => data.configurations[data.configuration[r.run]] }];
    const add = (name) => {
      const c = model.columns.get(name);
      if (c && !list.some((l) => l.key === name)) list.push({ key: name, title: name.replaceAll("_", " "), help: c.help, text: c.text, of: (r) => c.cells[r.run] });
    };
    if (model.several()) list.push({ key: "directory", title: "Directory", text: true, of: (r) => data.directories[data.directory[r.run]] });
    for (const name of ["Concurrency", state.x, state.y]) if (name !== "Concurrency" || extra.has(name)) add(name);
    list.push({ key: "front", title: "Front", text: true, of: (r) => (r.front ? "yes" : "") });
    if (extra.has("Off_Front")) add("Off_Front");
    for (const s of state.slos) add(s.column);
    if (state.slos.length) list.push({ key: "slos", title: "SLOs", text: true, of: (r) => (r.meets ? "met" : "missed") });
    for (const c of data.columns) if (extra.has(c.name)) add(c.name);
    list.push({ key: "file", title: "File", text: true, of: (r) => data.file[r.run] });
    return list;
  };
  // rows are all runs of the shown configurations, those without a dot, too.
  const rows = () => {
    const on = new Set(model.points().list.filter((p) => p.front).map((p) => p.run));
    return model.series().filter((s) => s.shown).flatMap((s) => s.runs.map((run) => ({ run, front: on.has(run), meets: model.meets(run) })));
  };
  const compare = (a, b) => {
    const missing = (v) => v === null || v === "";
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const number = (v) => (v === "inf" ? Infinity : v);
    a = number(a); b = number(b);
    if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const drawTable = () => {
    const columns = tableColumns(), list = rows();
    const by = order && columns.find((c) => c.key === order.key);
    if (by) {
      const sign = order.down ? -1 : 1;
      list.sort((a, b) => {
        const u = by.of(a), v = by.of(b), c = compare(u, v);
        return (u === null || v === null || u === "" || v === "" ? c : sign * c) || a.run - b.run;
      });
    }
    find("table").tHead.replaceChildren(h("tr", {}, ...columns.map((c) => h("th", {
      class: c.text ? undefined : "num", title: c.help, scope: "col", "aria-sort": by === c ? (order.down ? "descending" : "ascending") : undefined,
    }, h("button", { type: "button", class: "sort", "data-sort": c.key, onclick: () => {
      order = { key: c.key, down: order && order.key === c.key ? !order.down : !c.text };
      drawTable();
      find("table").querySelector(`[data-sort="${c.key}"]`).focus();
    } }, c.title)))));
    const shown = all ? list : list.slice(0, mostRows);
    const text = (v) => (v === null ? "\u2013" : v === "inf" ? "\u221e" : typeof v === "number" ? perigee.fmt.number(v) : v);
    find("table").tBodies[0].replaceChildren(...shown.map((r) => h("tr", {
      "data-run": r.run, class: [r.front && "front", !r.meets && "misses"].filter(Boolean).join(" ") || undefined,
      onclick: () => { current(r.run); chart.mark(r.run); },
    }, ...columns.map((c) => h("td", { class: c.text ? undefined : "num" }, text(c.of(r)))))));
    find("more").replaceChildren(...(shown.length < list.length ? [`${shown.length} of ${list.length} rows. `, h("button", { type: "button", id: "all-rows", onclick: () => { all = true; drawTable(); } }, "Show all")] : []));
  };
  const current = (run) => {
    for (const tr of find("table").tBodies[0].rows) {
      if (tr.dataset.run === String(run)) tr.setAttribute("aria-current", "true"); else tr.removeAttribute("aria-current");
    }
  };

  const chart = sweep.chart(find("chart"), model, (p) => {
    if (!find("table").querySelector(`tr[data-run="${p.run}"]`)) { all = true; drawTable(); }
    current(p.run);
    const row = find("table").querySelector(`tr[data-run="${p.run}"]`);
    const box = row.closest(".scroll");
    box.scrollTop = row.offsetTop - box.clientHeight / 2;
  });

  const say = () => {
    const { list, missing, directed } = model.points();
    const words = [`${list.length} runs`];
    if (state.slos.some((s) => s.limit !== null)) words.push(`${list.filter((p) => p.meets).length} within the SLOs`);
    if (!directed) words.push("no Pareto front: of one axis neither high nor low is better");
    else if (state.front) words.push(`${list.filter((p) => p.front).length} on the Pareto front`);
    const off = list.filter((p) => p.off).length;
    if (off) words.push(`${off} kept off it (crosses)`);
    if (missing) words.push(`${missing} without one of the values`);
    find("summary").textContent = words.join(" \u00b7 ");
  };
  const refresh = () => { drawLegend(); chart.redraw(); drawTable(); say(); };
  perigee.onTheme(drawLegend);
  refresh();
  window.sweep = { ready: true, model, chart };
});
