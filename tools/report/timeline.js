// The timeline: a row per rank, a bar per run of a pattern, on one canvas.
"use strict";
perigee.timeline = (host, controls, data) => {
  const { h, fmt } = perigee;
  const { hosts, hostOf, patterns } = data;

  // Spans by row; rows follow the hosts, with a gap between them.
  const order = hosts.flatMap((x) => x.ranks);
  const n = order.length;
  const rowOf = new Array(n);
  order.forEach((rank, row) => { rowOf[rank] = row; });
  const rows = Array.from({ length: n }, () => []);
  let at = 0, total = 1, iterations = 0;
  const firstOf = new Map(); // iteration -> [start, end]
  data.spans.rank.forEach((rank, i) => {
    at += data.spans.start[i];
    const s = {
      rank, pattern: data.spans.pattern[i], iteration: data.spans.iteration[i], target: data.spans.target[i] === 1,
      start: at, took: data.spans.took[i], bytes: data.spans.bytes[i],
    };
    rows[rowOf[rank]].push(s);
    total = Math.max(total, s.start + s.took);
    iterations = Math.max(iterations, s.iteration + 1);
    const it = firstOf.get(s.iteration) || [Infinity, 0];
    firstOf.set(s.iteration, [Math.min(it[0], s.start - (patterns[s.pattern].before || 0)), Math.max(it[1], s.start + s.took)]);
  });
  for (const row of rows) row.sort((a, b) => a.start - b.start);

  const gap = hosts.length > 1 ? 7 : 0;
  const tall = n <= 16 ? 24 : n <= 40 ? 16 : n <= 80 ? 10 : n <= 160 ? 6 : Math.max(2.2, Math.min(4, 1100 / n));
  const left = 64, top = 8, below = 40;
  const y = (row) => top + row * tall + hostOf[order[row]] * gap;
  const height = top + n * tall + (hosts.length - 1) * gap + below;

  let from = 0, to = total * 1.005, colour = "pattern", sleeps = true, hovered = null;
  const limit = () => {
    const width = Math.min(Math.max(to - from, 200), total * 1.1);
    from = Math.max(-total * 0.05, Math.min(from, total * 1.05 - width));
    to = from + width;
  };
  const zoomTo = (a, b) => { from = a; to = b; limit(); view.redraw(); };
  const zoom = (factor, middle = (from + to) / 2) => zoomTo(middle - (middle - from) * factor, middle + (to - middle) * factor);

  const slowest = Math.max(2, ...patterns.map((p) => (p.latency && p.isolated ? p.latency / p.isolated : 0)));
  const ofSlowdown = (s) => {
    const alone = patterns[s.pattern].isolated;
    if (!alone) return perigee.color("faint");
    const [r, g, b] = perigee.heat(0.18 + 0.82 * Math.min(1, Math.max(0, Math.log(s.took / alone) / Math.log(slowest))), true);
    return `rgb(${r} ${g} ${b})`;
  };

  const draw = (ctx, width, tallness) => {
    const bottom = tallness - below, right = width - 10;
    const x = perigee.scale(from, to, left, right);
    perigee.axes(ctx, { left, top: top - 4, right, bottom }, { scale: x, ticks: perigee.ticks(from, to, width / 120), fmt: fmt.ns, label: "time since the first start" });
    const palette = Array.from({ length: 8 }, (_, i) => perigee.series(i));
    const asleep = perigee.color("line");
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, 0, right - left, bottom);
    ctx.clip();
    const pad = tall >= 10 ? 2 : tall >= 6 ? 1 : 0.2;
    for (let row = 0; row < n; row++) {
      const y0 = y(row) + pad, high = tall - 2 * pad;
      const list = rows[row];
      if (sleeps) {
        ctx.fillStyle = asleep;
        let edge = -Infinity;
        for (const s of list) {
          const p = patterns[s.pattern];
          const begin = Math.max(s.start - (p.before || 0), edge);
          if (p.before && s.start > begin && (!s.target || data.targets_sleep)) {
            const a = x(begin), b = x(s.start);
            if (b > left && a < right && b - a > 0.4) ctx.fillRect(a, y0 + high * 0.4, b - a, Math.max(1, high * 0.2));
          }
          edge = s.start + s.took;
          if (p.after && !s.target) {
            const a = x(edge), b = x(edge + p.after);
            if (b > left && a < right) ctx.fillRect(a, y0 + high * 0.4, b - a, Math.max(1, high * 0.2));
          }
        }
      }
      const painted = [-1, -1]; // the last pixel that a bar of either kind was drawn on
      for (const s of list) {
        const a = x(s.start), b = x(s.start + s.took);
        if (b < left) continue;
        if (a > right) break;
        if (b <= painted[+s.target]) continue; // it would not be visible
        painted[+s.target] = Math.floor(a) + 1;
        ctx.fillStyle = colour === "pattern" ? palette[s.pattern % 8] : ofSlowdown(s);
        ctx.globalAlpha = s.target ? 0.6 : 1;
        const w = Math.max(b - a, tall >= 10 ? 1.6 : 1);
        if (s.target) ctx.fillRect(a, y0 + high * 0.3, w, Math.max(1, high * 0.4)); else ctx.fillRect(a, y0, w, high);
        ctx.globalAlpha = 1;
        if (!s.target && w > 34 && high >= 12 && colour === "pattern") {
          ctx.fillStyle = perigee.color("surface");
          ctx.textAlign = "left";
          ctx.fillText(String(s.pattern), Math.max(a, left) + 5, y0 + high / 2 + 0.5);
        }
      }
    }
    if (hovered) {
      ctx.strokeStyle = perigee.color("ink");
      ctx.lineWidth = 1.5;
      ctx.strokeRect(x(hovered.start), y(rowOf[hovered.rank]) + pad, Math.max(2, x(hovered.start + hovered.took) - x(hovered.start)), tall - 2 * pad);
    }
    ctx.restore();
    ctx.textAlign = "right";
    const every = Math.max(1, Math.ceil(13 / tall));
    ctx.fillStyle = perigee.color("muted");
    let first = 0, named = -Infinity;
    for (const [i, x0] of hosts.entries()) {
      for (let k = 0; k < x0.ranks.length; k += every) {
        const at = y(first + k) + Math.max(tall, 12) / 2;
        if (at - named < 13 || k && (x0.ranks.length - k) * tall + gap < 13) continue;
        named = at;
        ctx.fillText(String(x0.ranks[k]), left - 8, at);
      }
      if (i) {
        ctx.strokeStyle = perigee.color(hosts.length > 24 ? "line" : "faint");
        ctx.beginPath();
        ctx.moveTo(4, y(first) - gap / 2); ctx.lineTo(right, y(first) - gap / 2);
        ctx.stroke();
      }
      first += x0.ranks.length;
    }
    ctx.textAlign = "left";
    ctx.fillText("rank", 2, tallness - below + 13);
  };
  const view = perigee.canvas(host, {
    label: `Timeline of ${data.spans.rank.length} runs on ${n} ranks over ${fmt.ns(total)}. The table of patterns has the figures.`, height, focus: true,
  }, draw);

  const place = (e) => {
    const r = view.canvas.getBoundingClientRect();
    const x = perigee.scale(from, to, left, r.width - 10);
    return { time: x.invert(e.clientX - r.left), y: e.clientY - r.top, slack: x.invert(left + 3) - from };
  };
  const find = (p) => {
    for (let row = 0; row < n; row++) {
      if (p.y < y(row) || p.y >= y(row) + tall) continue;
      let best = null;
      for (const s of rows[row]) {
        if (s.start > p.time + p.slack) break;
        if (s.start + s.took >= p.time - p.slack && (!best || !s.target)) best = s;
      }
      return best;
    }
    return null;
  };
  const hover = (e) => {
    const s = find(place(e));
    if (s !== hovered) { hovered = s; view.redraw(); }
    if (!s) { perigee.tip.hide(); return; }
    const p = patterns[s.pattern];
    perigee.tip.show(e.clientX, e.clientY, p.name || "pattern " + s.pattern, [
      ["rank", `${s.rank} on ${hosts[hostOf[s.rank]].name}`], ["as", s.target ? "target" : "initiator"], ["iteration", String(s.iteration)],
      ["took", fmt.ns(s.took)], ["pattern alone", fmt.ns(p.isolated)], ["bytes", fmt.bytes(s.bytes)], ["bandwidth", s.took ? fmt.rate(s.bytes / s.took * 1e9) : "\u2013"],
      ["began at", fmt.ns(s.start)], ...(p.before ? [["slept before", fmt.ns(p.before)]] : []),
    ]);
  };
  let drag = null;
  view.canvas.addEventListener("pointerdown", (e) => {
    drag = { x: e.clientX, from, to };
    view.canvas.setPointerCapture(e.pointerId);
    view.canvas.classList.add("moving");
  });
  view.canvas.addEventListener("pointermove", (e) => {
    if (!drag) { hover(e); return; }
    perigee.tip.hide();
    const r = view.canvas.getBoundingClientRect();
    const by = (drag.x - e.clientX) / (r.width - 10 - left) * (drag.to - drag.from);
    zoomTo(drag.from + by, drag.to + by);
  });
  const stop = () => { drag = null; view.canvas.classList.remove("moving"); };
  view.canvas.addEventListener("pointerup", stop);
  view.canvas.addEventListener("pointercancel", stop);
  view.canvas.addEventListener("pointerleave", () => { if (hovered) { hovered = null; view.redraw(); } perigee.tip.hide(); });
  view.canvas.addEventListener("dblclick", (e) => zoom(0.4, place(e).time));
  view.canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) return; // the wheel alone moves the page
    e.preventDefault();
    zoom(Math.exp(e.deltaY * 0.003), place(e).time);
  }, { passive: false });
  view.canvas.addEventListener("keydown", (e) => {
    const step = (to - from) * 0.15;
    const act = {
      "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: () => zoomTo(0, total * 1.005),
      ArrowLeft: () => zoomTo(from - step, to - step), ArrowRight: () => zoomTo(from + step, to + step),
    }[e.key];
    if (act) { e.preventDefault(); act(); }
  });

  // Which colour is which pattern; colours repeat after eight.
  const legend = h("ul", { class: "legend" });
  const key = () => {
    const most = 24;
    legend.replaceChildren(...(colour !== "pattern" ? [] : patterns.slice(0, most).map((p, i) => {
      const mark = h("i");
      mark.style.color = perigee.series(i % 8);
      return h("li", {}, mark, !p.name ? `pattern ${i}` : /^(pattern |request |\d+: )/.test(p.name) ? p.name : `${i} ${p.name}`);
    })), ...(colour === "pattern" && patterns.length > most ? [h("li", {}, `and ${patterns.length - most} more; the number stands in the bars`)] : []));
  };
  host.after(legend);
  perigee.onTheme(key);
  key();

  const button = (text, label, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  controls.append(
    h("span", { class: "segmented" }, button("\u2212", "Zoom out", () => zoom(1 / 0.6)), button("+", "Zoom in", () => zoom(0.6)), button("All", "Show everything", () => zoomTo(0, total * 1.005))),
  );
  if (firstOf.size > 1) {
    const pick = h("select", { "aria-label": "Iteration", onchange: (e) => {
      if (e.target.value === "") { zoomTo(0, total * 1.005); return; }
      const [a, b] = firstOf.get(Number(e.target.value));
      zoomTo(a - (b - a) * 0.02, b + (b - a) * 0.02);
    } }, h("option", { value: "" }, "all iterations"), [...firstOf.keys()].sort((a, b) => a - b).slice(0, 200).map((i) => h("option", { value: i }, "iteration " + i)));
    controls.append(pick);
  }
  if (patterns.some((p) => p.isolated)) {
    controls.append(h("label", {}, "Colour", perigee.choice("Colour of the bars", [["pattern", "pattern"], ["slowdown", "slowdown"]], colour, (v) => { colour = v; key(); view.redraw(); })));
  }
  if (patterns.some((p) => p.before || p.after)) {
    controls.append(h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (e) => { sleeps = e.target.checked; view.redraw(); } }), "sleeps"));
  }
  return { window: () => [from, to], spans: rows.reduce((k, r) => k + r.length, 0), iterations };
};
