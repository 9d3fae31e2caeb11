// The trade-off chart: lines, dots, front, labels that do not cover each other.
"use strict";
(() => {
  const { h, sweep } = perigee;
  const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

  // look is how a configuration is drawn: colour, dash and the shape of its dots.
  sweep.look = (s) => ({ color: perigee.series(s.index), dash: dashes[Math.floor(s.index / 8) % dashes.length], shape: s.pd ? 0 : 1 });

  // Boxes in the cells of a grid: whether one overlaps any other is found quickly.
  const boxes = () => {
    const size = 32, grid = new Map();
    const cells = (b, visit) => {
      for (let x = Math.floor(b[0] / size); x <= Math.floor(b[2] / size); x++) {
        for (let y = Math.floor(b[1] / size); y <= Math.floor(b[3] / size); y++) if (visit(x + "," + y)) return true;
      }
      return false;
    };
    return {
      add: (b) => cells(b, (k) => { if (!grid.has(k)) grid.set(k, []); grid.get(k).push(b); return false; }),
      hit: (b) => cells(b, (k) => (grid.get(k) || []).some((o) => b[0] < o[2] && o[0] < b[2] && b[1] < o[3] && o[1] < b[3])),
    };
  };

  // Where a label may stand beside its dot, best first: shares of its size, and steps away.
  const places = [[-0.5, -1, 0, -1], [0, -0.5, 1, 0], [-0.5, 0, 0, 1], [-1, -0.5, -1, 0], [0, -1, 0.7, -0.7], [-1, -1, -0.7, -0.7], [0, 0, 0.7, 0.7], [-1, 0, -0.7, 0.7]];
  const labels = (ctx, box, placed) => {
    const taken = boxes(), seen = new Set(), high = 11, away = 8;
    for (const p of placed) taken.add([p.px - 3, p.py - 3, p.px + 3, p.py + 3]);
    ctx.font = "11px " + perigee.color("sans");
    ctx.textAlign = "left";
    const looks = new Map();
    let count = 0;
    for (const p of [...placed].sort((a, b) => b.front - a.front)) {
      const same = Math.round(p.px) + "," + Math.round(p.py) + "," + p.label;
      if (!p.label || !p.meets || seen.has(same)) continue;
      seen.add(same);
      const wide = ctx.measureText(p.label).width;
      for (const [sx, sy, dx, dy] of places) {
        const x = p.px + sx * wide + dx * away, y = p.py + sy * high + dy * away;
        const b = [x, y, x + wide, y + high];
        if (b[0] < box.left || b[2] > box.right + 8 || b[1] < box.top - 14 || b[3] > box.bottom || taken.hit(b)) continue;
        taken.add(b);
        if (!looks.has(p.series)) looks.set(p.series, sweep.look(p.series));
        ctx.fillStyle = looks.get(p.series).color;
        ctx.fillText(p.label, x, y + high / 2);
        count++;
        break;
      }
    }
    return count;
  };

  const extent = (values, log) => {
    let lo = Infinity, hi = -Infinity;
    for (const v of values) { lo = Math.min(lo, v); hi = Math.max(hi, v); } // there may be more than a call takes
    if (!values.length) return log ? [1, 10] : [0, 1];
    if (log) return [lo / 1.25, hi * 1.25];
    const low = Math.min(0, lo);
    return [low, hi > low ? low + (hi - low) * 1.06 : low + 1];
  };

  // chart(host, model, chosen) draws the model's points; chosen(point) is called for a click. Returns {redraw, mark, placed}.
  sweep.chart = (host, model, chosen) => {
    const { state } = model;
    let placed = [], hovered = null, shownLabels = 0;
    const plain = (v) => perigee.fmt.number(v);
    const draw = (ctx, width, height) => {
      const { list } = model.points();
      const xs = extent(list.map((p) => p.x), state.logX), ys = extent(list.map((p) => p.y), state.logY);
      const box = { left: 58, top: 30, right: width - 14, bottom: height - 44 };
      const x = { scale: perigee.scale(...xs, box.left, box.right, state.logX), fmt: plain, label: model.columns.get(state.x).label };
      const y = { scale: perigee.scale(...ys, box.bottom, box.top, state.logY), fmt: plain, label: model.columns.get(state.y).label };
      x.ticks = state.logX ? perigee.logTicks(...xs, width / 80) : perigee.ticks(...xs, width / 100);
      y.ticks = state.logY ? perigee.logTicks(...ys, height / 45) : perigee.ticks(...ys, height / 55);
      perigee.axes(ctx, box, x, y);
      placed = list.map((p) => ({ ...p, px: x.scale(p.x), py: y.scale(p.y) }));
      if (!placed.length) {
        ctx.textAlign = "center";
        ctx.fillStyle = perigee.color("muted");
        ctx.fillText("Nothing to show: no run that is chosen has both values.", (box.left + box.right) / 2, (box.top + box.bottom) / 2);
      }
      stairs(ctx, x, y);
      lines(ctx);
      dots(ctx);
      shownLabels = state.labels ? labels(ctx, box, placed) : 0;
    };
    const stairs = (ctx, x, y) => {
      ctx.strokeStyle = perigee.color("faint");
      ctx.globalAlpha = 0.55;
      ctx.lineWidth = 4;
      ctx.lineJoin = "round";
      ctx.beginPath();
      model.stairs(placed).forEach(([a, b], i) => (i ? ctx.lineTo(x.scale(a), y.scale(b)) : ctx.moveTo(x.scale(a), y.scale(b))));
      ctx.stroke();
      ctx.globalAlpha = 1;
    };
    const lines = (ctx) => {
      ctx.lineWidth = 1.6;
      ctx.globalAlpha = 0.7;
      let last = null;
      for (const p of placed) {
        if (p.series !== last) {
          if (last) ctx.stroke();
          const look = sweep.look(p.series);
          ctx.strokeStyle = look.color;
          ctx.setLineDash(look.dash);
          ctx.beginPath();
          ctx.moveTo(p.px, p.py);
          last = p.series;
        } else ctx.lineTo(p.px, p.py);
      }
      if (last) ctx.stroke();
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
    };
    const cross = (ctx, x, y, r) => { // a run that is kept off the front
      ctx.strokeStyle = perigee.color("muted");
      ctx.lineWidth = 1.6;
      ctx.beginPath();
      for (const s of [1, -1]) { ctx.moveTo(x - r, y - s * r); ctx.lineTo(x + r, y + s * r); }
      ctx.stroke();
    };
    const dots = (ctx) => {
      const radius = placed.length > 1000 ? 2.4 : 4, faint = perigee.color("faint"), looks = new Map();
      for (const p of placed) {
        if (!looks.has(p.series)) looks.set(p.series, sweep.look(p.series)); // styles are slow to ask for
        const look = looks.get(p.series);
        ctx.fillStyle = p.meets ? look.color : faint;
        ctx.globalAlpha = p.meets ? 1 : 0.6;
        if (p.off) cross(ctx, p.px, p.py, radius);
        else perigee.mark(ctx, look.shape, p.px, p.py, p.meets ? radius : radius * 0.8);
      }
      ctx.globalAlpha = 1;
      ctx.strokeStyle = perigee.color("ink");
      for (const p of placed) {
        const on = hovered && hovered.run === p.run;
        if (!p.front && !on) continue;
        ctx.lineWidth = on ? 2.5 : 1.2;
        ctx.beginPath();
        ctx.arc(p.px, p.py, on ? 9 : radius + 2.6, 0, 7);
        ctx.stroke();
      }
    };
    const frame = h("div");
    host.append(frame);
    const view = perigee.canvas(frame, { label: "Trade-off of the runs; the table below has the same figures", height: innerWidth < 640 ? 360 : 500, focus: true }, draw);

    // describe is what the box beside a dot says.
    const describe = (p) => {
      const { cell, columns, data } = model;
      const rows = [];
      const add = (name, key) => {
        const v = cell(key, p.run);
        if (v !== null && !rows.some((r) => r[2] === key)) rows.push([name, (typeof v === "number" ? perigee.fmt.number(v) : v) + (columns.get(key).unit ? "\u202f" + columns.get(key).unit : ""), key]);
      };
      add("Concurrency", "Concurrency");
      add(state.x, state.x);
      add(state.y, state.y);
      for (const s of state.slos) add(s.column, s.column);
      for (const key of ["Output_Token_Throughput", "Num_GPUs", "Mean_TTFT_ms", "Mean_TPOT_ms", "Mean_E2EL_ms", "Max_QPS"]) add(key, key);
      if (p.front) rows.push(["Pareto front", "yes"]);
      if (p.off) rows.push(["Kept off the front", p.off]);
      if (!p.meets) rows.push(["SLOs", "missed"]);
      rows.push(["File", (data.directories.length > 1 ? data.directories[data.directory[p.run]] + "/" : "") + data.file[p.run]]);
      return rows.map(([k, v]) => [k.replaceAll("_", " "), v]);
    };
    const show = (p) => {
      hovered = p;
      view.paint();
      if (!p) { perigee.tip.hide(); return; }
      const now = placed.find((q) => q.run === p.run);
      if (!now) return;
      const r = view.canvas.getBoundingClientRect();
      perigee.tip.show(r.left + now.px, r.top + now.py, now.series.title, describe(now));
    };
    const nearest = (e) => {
      const r = view.canvas.getBoundingClientRect(), mx = e.clientX - r.left, my = e.clientY - r.top;
      let best = null, d = 30 ** 2;
      for (const p of placed) {
        const q = (p.px - mx) ** 2 + (p.py - my) ** 2;
        if (q < d) { best = p; d = q; }
      }
      return best;
    };
    const point = (e) => {
      const p = nearest(e);
      if ((p && p.run) !== (hovered && hovered.run) || p && !perigee.tip.text()) show(p); // scrolling hides the box
    };
    view.canvas.addEventListener("pointermove", point);
    view.canvas.addEventListener("pointerdown", point);
    view.canvas.addEventListener("pointerleave", () => { if (hovered) show(null); });
    view.canvas.addEventListener("blur", () => { if (hovered) show(null); });
    view.canvas.addEventListener("click", (e) => { const p = nearest(e); if (p) chosen(p); });
    view.canvas.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && hovered) { chosen(hovered); return; }
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (!step || !placed.length) return;
      e.preventDefault();
      const sorted = [...placed].sort((a, b) => a.px - b.px || a.py - b.py);
      const now = hovered ? sorted.findIndex((q) => q.run === hovered.run) : step > 0 ? -1 : sorted.length;
      show(sorted[Math.max(0, Math.min(sorted.length - 1, now + step))]);
    });
    return {
      redraw: () => { hovered = null; perigee.tip.hide(); view.paint(); },
      mark: (run) => { hovered = placed.find((p) => p.run === run) || null; view.paint(); },
      placed: () => placed, labels: () => shownLabels,
    };
  };
})();
