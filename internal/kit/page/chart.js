// Charts on canvases: sharp on every screen, in the colours of the theme.
"use strict";
(() => {
  const { h } = perigee;

  // scale(d0, d1, r0, r1, log) maps the domain to the range; invert goes back.
  perigee.scale = (d0, d1, r0, r1, log = false) => {
    const f = log ? Math.log10 : (x) => x;
    const b = log ? (x) => 10 ** x : (x) => x;
    const a0 = f(d0), a1 = f(d1) === f(d0) ? f(d0) + 1 : f(d1);
    const s = (x) => r0 + (f(x) - a0) / (a1 - a0) * (r1 - r0);
    s.invert = (y) => b(a0 + (y - r0) / (r1 - r0) * (a1 - a0));
    return s;
  };

  // ticks(lo, hi, count) are about count round numbers in [lo, hi].
  perigee.ticks = (lo, hi, count = 5) => {
    if (!(hi > lo)) return [lo];
    const raw = (hi - lo) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((m) => m * power >= raw * 0.999) * power;
    const list = [];
    for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi * (1 + 1e-12) + step * 1e-9; k++) list.push(k * step);
    return list;
  };

  // logTicks(lo, hi) are the powers of 10 in [lo, hi], with 2 and 5 where there are few, or those of ticks.
  perigee.logTicks = (lo, hi, count = 6) => {
    const decades = Math.log10(hi / lo);
    const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    const list = [];
    for (let p = Math.floor(Math.log10(lo)); p <= Math.ceil(Math.log10(hi)); p++) {
      for (const s of steps) {
        const v = s * 10 ** p;
        if (v >= lo * 0.999 && v <= hi * 1.001) list.push(v);
      }
    }
    if (list.length < 2) return perigee.ticks(lo, hi, count);
    const every = Math.ceil(list.length / Math.max(2, count));
    return list.filter((_, i) => i % every === 0);
  };

  // Colour scales from 0 to 1 that the colour-blind can read and that grow in
  // lightness one way: little is close to the background, much is far from it.
  const anchors = {
    light: [[238, 243, 250], [182, 209, 240], [112, 165, 222], [52, 113, 190], [27, 66, 137], [17, 31, 82]],
    dark: [[27, 34, 44], [33, 60, 104], [41, 98, 165], [72, 147, 209], [142, 196, 228], [226, 241, 238]],
    hotLight: [[253, 243, 226], [250, 209, 152], [240, 158, 84], [211, 99, 40], [157, 52, 28], [92, 20, 24]],
    hotDark: [[44, 35, 28], [98, 52, 26], [164, 78, 28], [222, 124, 52], [247, 180, 108], [255, 238, 206]],
  };
  const ramp = (stops) => {
    const list = [];
    for (let i = 0; i < 256; i++) {
      const x = i / 255 * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(x)), f = x - k;
      list.push(stops[k].map((c, j) => Math.round(c + (stops[k + 1][j] - c) * f)));
    }
    return list;
  };
  const ramps = Object.fromEntries(Object.entries(anchors).map(([k, v]) => [k, ramp(v)]));
  // heat(x, hot) is [r, g, b] for x in 0..1: blue for amounts, orange for trouble.
  perigee.heat = (x, hot = false) => {
    const name = hot ? (perigee.isDark() ? "hotDark" : "hotLight") : (perigee.isDark() ? "dark" : "light");
    return ramps[name][Math.max(0, Math.min(255, Math.round(x * 255)))];
  };

  // canvas(host, options, draw) fills an element with a canvas and calls draw(ctx, width, height), in CSS pixels, now and
  // whenever size or theme change. label is read to those who do not see it. Returns {canvas, redraw}.
  perigee.canvas = (host, { label, height, focus = false }, draw) => {
    host.classList.add("chart");
    if (height) host.style.height = height + "px";
    const canvas = h("canvas", { role: "img", "aria-label": label, tabindex: focus ? "0" : undefined });
    host.append(canvas);
    let asked = false;
    const paint = () => {
      asked = false;
      const { clientWidth: width, clientHeight: tall } = host;
      if (!width || !tall) return; // not shown
      const ratio = devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(tall * ratio);
      const ctx = canvas.getContext("2d");
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      ctx.font = "12px " + perigee.color("sans");
      ctx.textBaseline = "middle";
      draw(ctx, width, tall);
    };
    const redraw = () => {
      if (!asked) { asked = true; requestAnimationFrame(paint); }
    };
    new ResizeObserver(redraw).observe(host);
    perigee.onTheme(paint);
    paint();
    return { canvas, redraw, paint };
  };

  // short drops the zeros that all ticks would carry.
  const short = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

  // fit cuts a text that is wider than the room.
  const fit = (ctx, text, room) => {
    while (text.length > 2 && ctx.measureText(text).width > room) text = text.slice(0, -2) + "\u2026";
    return text;
  };
  perigee.fit = fit;

  // axes(ctx, box, x, y) draws grid, ticks and titles. x and y are {scale, ticks, fmt, label}.
  perigee.axes = (ctx, { left, top, right, bottom }, x, y) => {
    ctx.lineWidth = 1;
    ctx.strokeStyle = perigee.color("grid");
    ctx.fillStyle = perigee.color("muted");
    ctx.beginPath();
    for (const t of y ? y.ticks : []) {
      const at = Math.round(y.scale(t)) + 0.5;
      ctx.moveTo(left, at); ctx.lineTo(right, at);
    }
    for (const t of x ? x.ticks : []) {
      const at = Math.round(x.scale(t)) + 0.5;
      ctx.moveTo(at, top); ctx.lineTo(at, bottom);
    }
    ctx.stroke();
    if (y) {
      ctx.textAlign = "right";
      for (const t of y.ticks) ctx.fillText(short(y.fmt(t)), left - 7, y.scale(t));
    }
    if (x) {
      ctx.textAlign = "center";
      let free = -Infinity;
      const room = x.words ? x.scale(1) - x.scale(0) - 6 : 0;
      for (const t of x.ticks) {
        const text = x.words ? fit(ctx, x.fmt(t), Math.max(room, 60)) : short(x.fmt(t)), w = ctx.measureText(text).width, at = Math.min(x.scale(t), right - w / 2 + 8);
        if (at - w / 2 < free) continue;
        ctx.fillText(text, at, bottom + 13);
        free = at + w / 2 + 8;
      }
    }
    ctx.strokeStyle = perigee.color("line");
    ctx.beginPath();
    ctx.moveTo(left + 0.5, top); ctx.lineTo(left + 0.5, bottom + 0.5); ctx.lineTo(right, bottom + 0.5);
    ctx.stroke();
    ctx.fillStyle = perigee.color("muted");
    if (x && x.label) { ctx.textAlign = "right"; ctx.fillText(x.label, right, bottom + 31); }
    if (y && y.label) { ctx.textAlign = "left"; ctx.fillText(y.label, 2, top - 12); }
  };

  // powersOfTwo are those in [lo, hi], thinned to about count.
  const powersOfTwo = (lo, hi, count) => {
    const first = Math.ceil(Math.log2(lo) - 1e-9), last = Math.floor(Math.log2(hi) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(2, count)));
    const list = [];
    for (let p = first; p <= last; p += every) list.push(2 ** p);
    return list;
  };

  // mark draws one of eight shapes, so that series differ not only in colour.
  const mark = (ctx, shape, x, y, r) => {
    ctx.beginPath();
    switch (shape % 4) {
      case 0: ctx.arc(x, y, r, 0, 7); break;
      case 1: ctx.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8); break;
      case 2: ctx.moveTo(x, y - r * 1.2); ctx.lineTo(x + r * 1.1, y + r * 0.9); ctx.lineTo(x - r * 1.1, y + r * 0.9); ctx.closePath(); break;
      default: ctx.moveTo(x, y - r * 1.3); ctx.lineTo(x + r * 1.3, y); ctx.lineTo(x, y + r * 1.3); ctx.lineTo(x - r * 1.3, y); ctx.closePath();
    }
    ctx.fill();
  };
  perigee.mark = mark;

  // extent(values, axis) is the range of an axis. One that need not begin at 0 spans a tenth of its values at least, so
  // that noise does not fill it; dates have no such measure.
  perigee.extent = (values, axis) => {
    const list = values.filter((v) => Number.isFinite(v) && (!axis.log || v > 0));
    let lo = axis.min ?? Math.min(...list), hi = axis.max ?? Math.max(...list);
    if (!list.length) return axis.log ? [1, 10] : [0, 1];
    if (axis.log) return lo === hi ? [lo / 2, hi * 2] : [lo / 1.08, hi * 1.08];
    if (axis.zero !== false && lo > 0) lo = 0;
    const free = axis.zero === false && !axis.date && axis.min === undefined && axis.max === undefined;
    const lacking = free ? Math.max(Math.abs(lo), Math.abs(hi)) / 10 - (hi - lo) : 0;
    if (lacking > 0) return [lo - lacking / 2, hi + lacking / 2];
    return lo === hi ? [lo, hi + 1] : [lo, hi + (hi - lo) * 0.04];
  };

  // plot(host, spec) is a chart of points and lines with a legend, a tooltip and the arrow keys.
  // spec: {label, height, x, y: {label, fmt, log, base (2: ticks at powers of two), min, max, zero, date}, series: [{name, points: [[x, y, info]] (info.range: [low, high] is drawn), line, step, marks,
  // color (token or index), dash, faint}], link (of two series, by x), lines: [{y or x, label, legend (the label stands there)}], tip(series, point) -> [title, rows], select(series, point)}
  // x.words names 0, 1, ...; bars draws bars instead of marks, as wide as info.span: [from, to] where points have one; beside is how many pixels series stand apart; lines may have points.
  // Returns {redraw, set(changes)}; set changes parts of spec, such as {x: {log: true}}.
  perigee.plot = (host, spec) => {
    let placed = [], hovered = null;
    const frame = h("div");
    host.append(frame);
    const visible = () => spec.series.filter((s) => !s.hidden);
    const colour = (s) => (typeof s.color === "string" ? perigee.color(s.color) : perigee.series(s.color ?? spec.series.indexOf(s)));
    const draw = (ctx, width, height) => {
      const points = visible().flatMap((s) => s.points).concat((spec.lines || []).flatMap((l) => l.points || []));
      const ranges = points.flatMap((p) => (p[2] && p[2].range) || []);
      const xs = perigee.extent(points.map((p) => p[0]), { zero: false, ...spec.x }), ys = perigee.extent(points.map((p) => p[1]).concat(ranges, (spec.lines || []).map((l) => l.y).filter((v) => v !== undefined)), spec.y);
      const box = { left: 64, top: 26, right: width - 12, bottom: height - 42 };
      const x = { ...spec.x, scale: perigee.scale(...xs, box.left, box.right, spec.x.log) };
      const y = { ...spec.y, scale: perigee.scale(...ys, box.bottom, box.top, spec.y.log) };
      x.ticks = spec.x.words ? spec.x.words.map((_, i) => i) : spec.x.base === 2 ? powersOfTwo(...xs, width / 90) : spec.x.log ? perigee.logTicks(...xs, width / 90) : perigee.ticks(...xs, width / 110);
      x.ticks = x.ticks.filter((v, i, list) => i === 0 || spec.x.fmt(v, i) !== spec.x.fmt(list[i - 1], i - 1));
      y.ticks = spec.y.log ? perigee.logTicks(...ys, height / 45) : perigee.ticks(...ys, height / 60);
      perigee.axes(ctx, box, x, y);
      ctx.save();
      ctx.beginPath();
      ctx.rect(box.left - 6, box.top - 6, box.right - box.left + 12, box.bottom - box.top + 12);
      ctx.clip();
      for (const l of spec.lines || []) {
        ctx.strokeStyle = ctx.fillStyle = perigee.color(l.color || "bad");
        ctx.setLineDash([6, 4]);
        ctx.beginPath();
        if (l.points) l.points.forEach((p, i) => (i ? ctx.lineTo(x.scale(p[0]), y.scale(p[1])) : ctx.moveTo(x.scale(p[0]), y.scale(p[1]))));
        else if (l.y !== undefined) { ctx.moveTo(box.left, y.scale(l.y)); ctx.lineTo(box.right, y.scale(l.y)); } else { ctx.moveTo(x.scale(l.x), box.top); ctx.lineTo(x.scale(l.x), box.bottom); }
        ctx.stroke();
      }
      ctx.setLineDash([]);
      placed = [];
      if (spec.link && visible().length === 2) {
        const [a, b] = visible().map((s) => new Map(s.points));
        ctx.strokeStyle = perigee.color("faint");
        ctx.globalAlpha = 0.5;
        ctx.beginPath();
        for (const [k, v] of a) {
          if (b.has(k)) { ctx.moveTo(x.scale(k), y.scale(v)); ctx.lineTo(x.scale(k), y.scale(b.get(k))); }
        }
        ctx.stroke();
        ctx.globalAlpha = 1;
      }
      const wide = spec.bars ? Math.min(0.8 * (x.scale(1) - x.scale(0)) / visible().length, 60) : 0, apart = wide || spec.beside || 0;
      for (const [k, s] of visible().entries()) {
        const beside = (k - (visible().length - 1) / 2) * apart;
        const at = s.points.filter((p) => Number.isFinite(p[1]) && (!spec.x.log || p[0] > 0) && (!spec.y.log || p[1] > 0)).map((p) => ({ s, p, x: x.scale(p[0]) + beside, y: y.scale(p[1]) }));
        const base = y.scale(Math.max(0, ys[0]));
        ctx.fillStyle = ctx.strokeStyle = colour(s);
        ctx.globalAlpha = s.faint ? 0.55 : 1;
        if (spec.bars) {
          for (const p of at) {
            const [from, to] = p.p[2]?.span?.map((v) => Math.round(x.scale(v))) || [p.x - wide * 0.46, p.x + wide * 0.46];
            const gap = p.p[2]?.span && to - from > 4 ? 1 : 0;
            ctx.fillRect(from, Math.min(p.y, base), Math.max(to - from - gap, 1), Math.abs(base - p.y));
          }
        }
        if (s.line) {
          ctx.lineWidth = 2;
          ctx.setLineDash(s.dash || []);
          ctx.beginPath();
          at.forEach((p, i) => {
            if (i && s.step) ctx.lineTo(p.x, at[i - 1].y);
            if (i) ctx.lineTo(p.x, p.y); else ctx.moveTo(p.x, p.y);
          });
          ctx.stroke();
          ctx.setLineDash([]);
        }
        ctx.lineWidth = 1.5;
        if (spec.bars) ctx.strokeStyle = perigee.color("ink");
        const crowded = at.length > 100;
        ctx.globalAlpha = crowded ? 0.4 : 1;
        for (const p of at) {
          const range = p.p[2] && p.p[2].range;
          if (!range || !(range[1] > range[0])) continue;
          ctx.beginPath();
          if (!crowded) for (const end of range) { ctx.moveTo(p.x - 3, y.scale(end)); ctx.lineTo(p.x + 3, y.scale(end)); }
          ctx.moveTo(p.x, y.scale(range[0])); ctx.lineTo(p.x, y.scale(range[1]));
          ctx.stroke();
        }
        ctx.globalAlpha = s.faint ? 0.55 : 1;
        if (s.marks !== false && !spec.bars) for (const p of at) mark(ctx, s.shape ?? spec.series.indexOf(s), p.x, p.y, s.radius || (at.length > 400 ? 2 : 3.5));
        ctx.globalAlpha = 1;
        placed.push(...at);
      }
      // What the lines are stands on top of all, at the highest point of each.
      ctx.strokeStyle = perigee.color("surface");
      ctx.lineWidth = 4;
      const labels = [];
      for (const l of (spec.lines || []).filter((l) => l.label && !l.legend)) {
        ctx.fillStyle = perigee.color(l.color || "bad");
        const [at, v] = l.points ? l.points.reduce((a, b) => (b[1] > a[1] ? b : a)) : [l.x, l.y];
        const px = at === undefined ? box.right : x.scale(at);
        let py = v === undefined ? box.top + 8 : Math.max(y.scale(v) - 9, box.top + 4);
        while (labels.some((other) => Math.abs(other - py) < 14)) py += 18; // below its line, and other labels
        labels.push(py);
        const left = l.points && px < (box.left + box.right) / 2;
        ctx.textAlign = left ? "left" : "right";
        const text = fit(ctx, l.label, box.right - box.left - 10);
        ctx.strokeText(text, px + (left ? 6 : -4), py);
        ctx.fillText(text, px + (left ? 6 : -4), py);
      }
      if (hovered) {
        const p = placed.find((q) => q.p === hovered.p && q.s === hovered.s);
        if (p) {
          ctx.strokeStyle = perigee.color("ink");
          ctx.lineWidth = 1.5;
          ctx.beginPath(); ctx.arc(p.x, p.y, 6.5, 0, 7); ctx.stroke();
        }
      }
      ctx.restore();
    };
    const view = perigee.canvas(frame, { label: spec.label, height: spec.height || 300, focus: true }, draw);
    const show = (p) => {
      hovered = p;
      view.redraw();
      if (!p) { perigee.tip.hide(); return; }
      const r = view.canvas.getBoundingClientRect();
      const [title, rows] = spec.tip ? spec.tip(p.s, p.p) : [p.s.name, [[spec.x.label, spec.x.fmt(p.p[0])], [spec.y.label, spec.y.fmt(p.p[1])]]];
      perigee.tip.show(r.left + p.x, r.top + p.y, title, rows);
    };
    const nearest = (e) => {
      const r = view.canvas.getBoundingClientRect(), mx = e.clientX - r.left, my = e.clientY - r.top;
      let best = null, d = 36 ** 2;
      for (const p of placed) {
        const q = (p.x - mx) ** 2 + (p.y - my) ** 2;
        if (q < d) { best = p; d = q; }
      }
      return best;
    };
    view.canvas.addEventListener("pointermove", (e) => show(nearest(e)));
    view.canvas.addEventListener("pointerleave", () => show(null));
    view.canvas.addEventListener("blur", () => show(null));
    view.canvas.addEventListener("click", (e) => { const p = nearest(e); if (p && spec.select) spec.select(p.s, p.p); });
    view.canvas.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && hovered && spec.select) { spec.select(hovered.s, hovered.p); return; }
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!step || !placed.length) return;
      e.preventDefault();
      const sorted = [...placed].sort((a, b) => a.x - b.x || a.y - b.y);
      const now = hovered ? sorted.findIndex((q) => q.p === hovered.p && q.s === hovered.s) : step > 0 ? -1 : sorted.length;
      show(sorted[Math.max(0, Math.min(sorted.length - 1, now + step))]);
    });
    const legend = h("ul", { class: "legend" });
    const list = () => {
      const named = (spec.lines || []).filter((l) => l.legend).map((l) => ({ name: l.label, color: l.color || "bad" }));
      legend.replaceChildren(...(spec.series.length + named.length < 2 ? [] : [...spec.series, ...named].map((s) => {
        const i = h("i");
        i.style.color = colour(s);
        return h("li", {}, i, s.name);
      })));
    };
    list();
    perigee.onTheme(list);
    host.append(legend);
    return {
      canvas: view.canvas,
      redraw: () => { list(); view.redraw(); },
      set: (changes) => {
        for (const [k, v] of Object.entries(changes)) spec[k] = k === "x" || k === "y" ? { ...spec[k], ...v } : v;
        hovered = null;
        list();
        view.redraw();
      },
    };
  };
})();
