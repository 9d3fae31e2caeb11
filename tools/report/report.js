// The charts of a report, made when their result is first looked at.
"use strict";
(() => {
  const { h, fmt } = perigee;

  const binary = (n) => {
    const names = ["B", "KiB", "MiB", "GiB"];
    let i = 0;
    while (n >= 1024 && i < 3) { n /= 1024; i++; }
    return `${+n.toPrecision(3)}\u202f${names[i]}`;
  };

  // picture draws one chart of the answer (figures.Chart). Points of a series are joined unless they have names, which are things by themselves; an axis of words has bars.
  const picture = (chart) => {
    const { x, y, limits = [] } = chart;
    const xs = chart.series.flatMap((s) => s.points.map((p) => p.x));
    const whole = x.unit === "bytes" && xs.every((v) => (v < 1024 ? Number.isInteger(Math.log2(v)) : v % 1024 === 0));
    const twos = x.unit !== "bytes" && xs.every((v) => Number.isInteger(Math.log2(v)));
    const units = { ns: fmt.ns, bytes: fmt.bytes, "bytes/s": fmt.rate, ratio: fmt.ratio };
    const show = x.words ? (v) => x.words[v] ?? "" : whole ? binary : units[x.unit] || fmt.number, value = units[y.unit] || fmt.number;
    const series = chart.series.map((s, i) => ({
      name: s.name, color: i, shape: i, line: !x.words && !s.points.some((p) => p.name), marks: x.unit !== "ns", dash: chart.wide && i ? [6, 4] : undefined,
      points: s.points.map((p) => [p.x, p.y, { name: p.name, range: p.low !== null && p.high !== null ? [p.low, p.high] : undefined }]),
    }));
    const host = h("div");
    const figure = h("figure", chart.wide ? { class: "wide" } : {}, h("figcaption", {}, chart.title), host);
    return [figure, () => perigee.plot(host, {
      label: chart.title, height: 270, series, bars: Boolean(x.words) && !y.log, beside: series.some((s) => s.points.some((p) => p[2].range)) ? 6 : 0,
      x: { label: x.label, fmt: show, log: x.log, words: x.words, base: x.log && (whole || twos) ? 2 : undefined, ...(x.words ? { min: -0.5, max: x.words.length - 0.5 } : {}) },
      y: { label: y.label, fmt: value, log: y.log },
      lines: limits.map((l) => ({ label: l.name, color: "muted", ...(l.points.length > 1 ? { points: l.points.map((p) => [p.x, p.y]) } : { y: l.points[0].y }) })),
      tip: (s, [at, v, { name, range }]) => [name || show(at), [...(name ? [[x.label, show(at)]] : []), [s.name || y.label, value(v)],
        ...(range && range[1] > range[0] ? [["from", value(range[0])], ["to", value(range[1])]] : [])]],
    })];
  };
  const pictures = (list) => (host, _, data) => list(data.answer).map((chart) => {
    const [figure, plot] = picture(chart);
    host.append(figure);
    return plot();
  });
  const first = 3; // pictures that stand above the facts

  const patternsChart = (host, controls, data) => {
    const points = (pick, range) => data.patterns.map((p, i) => [i, pick(p), { i, range: range && range(p) }]).filter((p) => p[1] !== null);
    const plot = perigee.plot(host, {
      label: `Latency of ${data.patterns.length} patterns, isolated and in the workload`, height: 280,
      x: { label: "pattern", fmt: (v) => (Number.isInteger(v) ? String(v) : "") , min: -0.5, max: data.patterns.length - 0.5 },
      y: { label: "latency", fmt: fmt.ns, log: true },
      series: [
        { name: "isolated", color: 0, points: points((p) => p.isolated) },
        { name: "workload", color: 1, points: points((p) => p.latency, (p) => (p.fastest === null ? undefined : [p.fastest, p.slowest])) },
      ].filter((s) => s.points.length),
      link: true,
      tip: (s, [i]) => {
        const p = data.patterns[i];
        return [p.name || "pattern " + i, [["isolated", fmt.ns(p.isolated)], ["workload", fmt.ns(p.latency)], ["fastest", fmt.ns(p.fastest)], ["slowest", fmt.ns(p.slowest)],
          ["slowdown", fmt.ratio(p.isolated ? p.latency / p.isolated : null)], ["bytes", fmt.bytes(p.bytes)]]];
      },
    });
    controls.append(h("label", {}, "Scale", perigee.choice("Scale of the latencies", [["log", "log"], ["linear", "linear"]], "log", (v) => plot.set({ y: { log: v === "log" } }))));
  };

  const latencyChart = (host, controls, data) => {
    const of = (kind) => data.latencies.filter((l) => l.of === kind).map((l) => ({
      name: l.phase || "workload / isolated", color: { isolated: 0, workload: 1 }[l.phase] ?? data.latencies.indexOf(l), line: true, step: false, marks: false, points: l.curve,
    }));
    const kinds = ["message", "pattern", "slowdown"].filter((k) => of(k).length);
    const x = (kind) => (kind === "slowdown" ? { label: "slowdown", fmt: fmt.ratio, log: true } : { label: "latency", fmt: fmt.ns, log: true });
    const plot = perigee.plot(host, {
      label: "Cumulated distribution of latencies; the table below has the percentiles", height: 260, x: x(kinds[0]),
      y: { label: "share of all", fmt: (v) => Math.round(v * 100) + "\u202f%", min: 0, max: 1 },
      series: of(kinds[0]),
      tip: (s, [v, q]) => [s.name, [[fmt.percent(q) + " within", kindNow === "slowdown" ? fmt.ratio(v) : fmt.ns(v)]]],
    });
    let kindNow = kinds[0];
    const names = { message: "messages", pattern: "patterns", slowdown: "slowdown" };
    controls.append(perigee.choice("Distribution of", kinds.map((k) => [k, names[k]]), kindNow, (k) => { kindNow = k; plot.set({ series: of(k), x: x(k) }); }));
  };

  const metrics = {
    bytes: { name: "bytes", fmt: fmt.bytes },
    bandwidth: { name: "bandwidth", fmt: fmt.rate },
    latency: { name: "latency", fmt: fmt.ns, hot: true },
    slowdown: { name: "slowdown", fmt: fmt.ratio, hot: true },
    contention: { name: "contention", fmt: fmt.ratio, hot: true },
  };

  const matrixChart = (host, controls, data) => {
    let metric = data.pairs.contention.some((v) => v !== null) ? "contention" : "bytes", log = false, byHost = false, cursor = null;
    const order = data.hosts.flatMap((x) => x.ranks);
    const rowOf = new Array(order.length);
    order.forEach((rank, row) => { rowOf[rank] = row; });
    const sets = () => (byHost ? data.hostPairs : data.pairs);
    const size = () => (byHost ? data.hosts.length : order.length);
    const row = (k) => (byHost ? k : rowOf[k]);
    const name = (i) => (byHost ? data.hosts[i].name : `rank ${order[i]}`);
    const cells = () => {
      const s = sets(), map = new Map();
      s.from.forEach((f, i) => map.set(row(f) * size() + row(s.to[i]), i));
      return map;
    };
    let index = cells();
    const chart = h("div"), side = h("div", { class: "side" });
    host.append(chart, side);
    const range = () => {
      const list = sets()[metric].filter((v) => v !== null && v > 0);
      if (!list.length) return null;
      let lo = Infinity, hi = -Infinity;
      for (const v of list) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
      if (metric === "slowdown" || metric === "contention") { lo = Math.min(lo, 1); hi = Math.max(hi, 1.5); }
      if (metric === "bytes" || metric === "bandwidth") lo = log ? lo : 0;
      return hi > lo ? [lo, hi] : [lo / 2, hi];
    };
    const share = (v, [lo, hi]) => 0.08 + 0.92 * (log ? Math.log(v / lo) / Math.log(hi / lo) : (v - lo) / (hi - lo));
    const layout = (width, height) => {
      const n = size(), left = byHost ? 110 : 44, top = byHost ? 30 : 24;
      const cell = Math.min((width - left - 4) / n, (height - top - 4) / n, 64);
      return { n, left, top, cell, side: cell * n };
    };
    const draw = (ctx, width, height) => {
      const { n, left, top, cell, side: full } = layout(width, height);
      const r = range(), set = sets();
      const image = new ImageData(n, n);
      for (const [key, i] of index) {
        const v = set[metric][i];
        const [red, green, blue] = r && v !== null && v > 0 ? perigee.heat(share(v, r), metrics[metric].hot) : [128, 128, 128];
        image.data.set([red, green, blue, r && v > 0 ? 255 : 70], key * 4);
      }
      const small = new OffscreenCanvas(n, n);
      small.getContext("2d").putImageData(image, 0, 0);
      ctx.fillStyle = perigee.color("bg");
      ctx.fillRect(left, top, full, full);
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(small, left, top, full, full);
      ctx.lineWidth = 1;
      if (cell >= 9) {
        ctx.strokeStyle = perigee.color("surface");
        ctx.beginPath();
        for (let i = 0; i <= n; i++) {
          ctx.moveTo(left + i * cell, top); ctx.lineTo(left + i * cell, top + full);
          ctx.moveTo(left, top + i * cell); ctx.lineTo(left + full, top + i * cell);
        }
        ctx.stroke();
      }
      if (!byHost) {
        ctx.strokeStyle = perigee.color("faint");
        ctx.globalAlpha = data.hosts.length > 8 ? 0.3 : 0.8;
        ctx.beginPath();
        let edge = 0;
        for (const x of data.hosts.slice(0, -1)) {
          edge += x.ranks.length;
          ctx.moveTo(left + edge * cell, top - 6); ctx.lineTo(left + edge * cell, top + full);
          ctx.moveTo(left - 6, top + edge * cell); ctx.lineTo(left + full, top + edge * cell);
        }
        ctx.stroke();
        ctx.globalAlpha = 1;
      }
      ctx.strokeStyle = perigee.color("line");
      ctx.strokeRect(left + 0.5, top + 0.5, full - 1, full - 1);
      ctx.fillStyle = perigee.color("muted");
      const every = Math.max(1, Math.ceil((byHost ? 14 : ctx.measureText(String(n)).width + 10) / cell));
      for (let i = 0; i < n; i += every) {
        const text = byHost ? data.hosts[i].name : String(order[i]);
        ctx.textAlign = "right";
        ctx.fillText(perigee.fit(ctx, text, left - 12), left - 8, top + (i + 0.5) * cell);
        ctx.textAlign = "center";
        ctx.fillText(perigee.fit(ctx, text, Math.max(cell * every, 20)), left + (i + 0.5) * cell, top - 10);
      }
      if (cursor) {
        ctx.strokeStyle = perigee.color("ink");
        ctx.lineWidth = 2;
        const w = Math.max(cell, 4);
        ctx.strokeRect(left + (cursor[1] + 0.5) * cell - w / 2, top + (cursor[0] + 0.5) * cell - w / 2, w, w);
      }
    };
    const n = order.length, height = Math.min(680, Math.max(120, n * 52 + 40));
    host.style.setProperty("--chart", Math.max(height + 30, 260) + "px");
    host.style.setProperty("--tall", height + "px");
    const view = perigee.canvas(chart, {
      label: `Matrix of ${n} by ${n} ranks: ${data.pairs.from.length} pairs with traffic. Arrow keys move from cell to cell.`, height, focus: true,
    }, draw);

    const bar = h("div"), figures = h("dl", { class: "figures" }), where = h("p", { class: "where" });
    side.append(h("p", { class: "muted" }, "Scale"), bar, where, figures);
    const legend = perigee.canvas(bar, { label: "Scale of the colours", height: 44 }, (ctx, width) => {
      const r = range();
      if (!r) return;
      for (let i = 0; i < width; i++) {
        const [red, green, blue] = perigee.heat(0.08 + 0.92 * i / width, metrics[metric].hot);
        ctx.fillStyle = `rgb(${red} ${green} ${blue})`;
        ctx.fillRect(i, 2, 1.5, 14);
      }
      ctx.fillStyle = perigee.color("muted");
      ctx.textAlign = "left";
      ctx.fillText(metrics[metric].fmt(r[0]), 0, 28);
      ctx.textAlign = "right";
      ctx.fillText(metrics[metric].fmt(r[1]), width, 28);
    });
    const describe = () => {
      if (!cursor) {
        where.textContent = "";
        figures.replaceChildren();
        return [];
      }
      const set = sets(), i = index.get(cursor[0] * size() + cursor[1]);
      const title = `${name(cursor[0])} \u2192 ${name(cursor[1])}`;
      where.textContent = title;
      const list = i === undefined ? [["traffic", "none"]] : [
        ["bytes", fmt.bytes(set.bytes[i])], ["messages", String(set.messages[i])], ["latency", fmt.ns(set.latency[i])],
        ...(byHost ? [] : [["isolated", fmt.ns(set.isolated[i])]]), ["bandwidth", fmt.rate(set.bandwidth[i])], ["slowdown", fmt.ratio(set.slowdown[i])],
        ...(byHost ? [] : [["contention", set.contention[i] === null ? "none shown" : fmt.ratio(set.contention[i])]]),
      ];
      if (!byHost && data.hosts.length > 1) list.push(["hosts", `${data.hosts[data.hostOf[order[cursor[0]]]].name} \u2192 ${data.hosts[data.hostOf[order[cursor[1]]]].name}`]);
      figures.replaceChildren(...list.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
      return [title, list];
    };
    const point = (to, x, y) => {
      const changed = String(to) !== String(cursor);
      cursor = to;
      if (changed) view.redraw();
      const [title, list] = describe();
      if (title && x !== undefined) perigee.tip.show(x, y, title, list); else perigee.tip.hide();
    };
    view.canvas.addEventListener("pointermove", (e) => {
      const r = view.canvas.getBoundingClientRect(), l = layout(r.width, r.height);
      const c = Math.floor((e.clientX - r.left - l.left) / l.cell), w = Math.floor((e.clientY - r.top - l.top) / l.cell);
      if (c < 0 || w < 0 || c >= l.n || w >= l.n) { point(null); return; }
      point([w, c], e.clientX, e.clientY);
    });
    view.canvas.addEventListener("pointerleave", () => perigee.tip.hide());
    view.canvas.addEventListener("keydown", (e) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[e.key];
      if (!step) return;
      e.preventDefault();
      const at = cursor || [0, 0], most = size() - 1;
      const to = cursor ? at.map((v, i) => Math.max(0, Math.min(most, v + step[i]))) : at;
      const r = view.canvas.getBoundingClientRect(), l = layout(r.width, r.height);
      point(to, r.left + l.left + (to[1] + 1) * l.cell, r.top + l.top + (to[0] + 1) * l.cell);
    });
    const hardest = h("div", { class: "hardest" });
    const jump = (i) => {
      if (byHost) controls.querySelector('[data-value="rank"]').click();
      view.canvas.scrollIntoView({ block: "nearest" });
      point([rowOf[data.pairs.from[i]], rowOf[data.pairs.to[i]]]);
    };
    const worst = data.pairs.contention.map((v, i) => [v, i]).filter(([v]) => v !== null).sort((a, b) => b[0] - a[0]).slice(0, 8);
    if (worst.length) {
      hardest.append(h("p", { class: "muted" }, "Most contention"), h("ol", {}, worst.map(([v, i]) => h("li", {}, h("button", { type: "button", onclick: () => jump(i) },
        h("span", {}, `${data.pairs.from[i]} \u2192 ${data.pairs.to[i]}`), h("b", {}, fmt.ratio(v)))))));
    }
    side.append(hardest);
    const again = () => { cursor = null; index = cells(); describe(); view.redraw(); legend.redraw(); };
    const known = Object.keys(metrics).filter((m) => data.pairs[m].some((v) => v !== null));
    controls.append(
      h("label", {}, "Show", perigee.choice("Figure in the cells", known.map((m) => [m, metrics[m].name]), metric, (v) => { metric = v; again(); })),
      h("label", {}, "Scale", perigee.choice("Scale of the colours", [["linear", "linear"], ["log", "log"]], "linear", (v) => { log = v === "log"; again(); })),
    );
    if (data.hosts.length > 1) {
      controls.append(h("label", {}, "By", perigee.choice("Rows and columns", [["rank", "rank"], ["host", "host"]], "rank", (v) => { byHost = v === "host"; again(); })));
    }
  };

  // The answer's pictures stand in the panel as they are: they are drawn before the page has loaded, as previews want.
  const answers = { answer: pictures((l) => l.slice(0, first)), more: pictures((l) => l.slice(first)) };
  const charts = { timeline: perigee.timeline, patterns: patternsChart, matrix: matrixChart, latency: latencyChart };
  const made = new Map();
  const make = async (panel) => {
    if (made.has(panel.id)) return;
    made.set(panel.id, {});
    const parts = {};
    const fill = (list, data) => {
      for (const [name, draw] of Object.entries(list)) {
        const host = panel.querySelector(`[data-chart="${name}"]`);
        if (host) parts[name] = draw(host, panel.querySelector(`[data-controls="${name}"]`), data);
      }
    };
    fill(answers, { answer: JSON.parse(panel.querySelector(".answer script").textContent) });
    const data = await perigee.data(panel.id);
    fill(charts, data);
    made.set(panel.id, { data, parts });
    panel.dataset.ready = "true";
  };
  perigee.made = made;

  const fail = (panel, error) => {
    panel.prepend(h("div", { class: "banner bad", role: "alert" }, h("strong", {}, "The charts could not be drawn"), h("p", {}, String(error)), h("p", {}, "Browsers of 2023 and later can.")));
    panel.dataset.ready = "failed";
  };
  // Paper cannot be unfolded.
  for (const [event, open] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => { for (const e of document.querySelectorAll(".judged, .more")) e.open = open; });
  }
  document.addEventListener("DOMContentLoaded", () => {
    const panels = [...document.querySelectorAll(".panel")];
    const show = (panel) => make(panel).catch((e) => fail(panel, e));
    const list = document.querySelector(".results");
    if (list) {
      perigee.tabs(list, (tab) => {
        const id = tab.getAttribute("aria-controls");
        for (const a of document.querySelectorAll(".topbar nav a")) a.setAttribute("href", a.getAttribute("href").replace(/^#r\d+-/, `#${id}-`));
        show(document.getElementById(id));
      });
    }
    show(panels[0]);
  });
})();
