// The charts of `perigee trace show`, drawn from the same figures that --format json prints.
"use strict";
(() => {
  const { h, fmt } = perigee;
  const count = (n) => {
    const [f, prefix] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([f]) => Math.abs(n) >= f) || [1, ""];
    return +(n / f).toPrecision(3) + (prefix && "\u202f" + prefix);
  };
  const whole = (n) => n.toLocaleString("en-US");
  const seconds = (s) => +s.toFixed(3) + "\u202fs";

  // figure makes a chart under its title.
  const figure = (host, title, spec) => {
    const frame = h("div");
    host.append(h("figure", {}, h("figcaption", {}, title), frame));
    return perigee.plot(frame, { label: title, height: 240, ...spec });
  };

  // arrivals draws requests and tokens over time.
  const arrivals = (host, _, { arrivals: { bins }, span_s: span }) => {
    const [unit, name] = span > 7200 ? [3600, "h"] : span > 300 ? [60, "min"] : [1, "s"];
    const shown = [["requests", "Requests", "requests"], ["input_tokens", "Input tokens", "tokens"]];
    const edge = (i) => bins.begin_s + i * bins.width_s;
    shown.forEach(([key, title, label], color) => figure(host, title, {
      bars: true, series: [{ name: label, color, points: bins[key].map((v, i) => [edge(i + 0.5) / unit, v, { i, span: [edge(i) / unit, edge(i + 1) / unit] }]) }],
      x: { label: "time since the first request", fmt: (v) => +v.toPrecision(6) + "\u202f" + name, min: bins.begin_s / unit, max: edge(bins[key].length) / unit },
      y: { label: `${label} per ${seconds(bins.width_s)}`, fmt: count },
      tip: (s, [, , { i }]) => [`${seconds(edge(i))} to ${seconds(edge(i + 1))}`, shown.map(([key, , label]) => [label, whole(bins[key][i])])],
    }));
  };

  // lengths draws histograms. Lengths of 0 stand left of those of 1, as a logarithm has no place for them.
  const lengths = (host, _, f) => {
    const start = (n) => n || 0.7;
    for (const [of, title, color] of [["input", "Input tokens", 1], ["output", "Output tokens", 2]].filter(([of]) => f[of])) {
      const { bins, p50_tokens, p90_tokens, p99_tokens } = f[of];
      figure(host, title, {
        bars: true, x: { label: "tokens of a request (log)", fmt: count, log: true, min: start(bins[0].from_tokens), max: bins.at(-1).to_tokens }, y: { label: "requests", fmt: count },
        series: [{ name: title, color, points: bins.map((b) => [Math.sqrt(start(b.from_tokens) * b.to_tokens), b.requests, { b, span: [start(b.from_tokens), b.to_tokens] }]) }],
        lines: Object.entries({ p50: p50_tokens, p90: p90_tokens, p99: p99_tokens }).map(([label, x]) => ({ label, x: start(x), color: "ink" })),
        tip: (s, [, n, { b }]) => [`${whole(b.from_tokens)} to ${whole(b.to_tokens - 1)} tokens`, [["requests", whole(n)], ["of all", fmt.percent(n / f.requests)]]],
      });
    }
  };

  // hits draws the hit ratio of an LRU cache over its size, in blocks, tokens or bytes.
  const hits = (host, controls, { hits: { curve_lru_tail_last: curve, token_weighted: infinite }, blocks, offered_load: load, input }) => {
    const units = { blocks: [1, count], tokens: [blocks.tokens, count], bytes: [load && blocks.tokens * load.all_prompt.bytes / input.sum_tokens, fmt.bytes] };
    const known = Object.keys(units).filter((u) => units[u][0]);
    const view = (u) => {
      const [factor, text] = units[u];
      const points = (key) => curve.map((p) => [p.capacity_blocks * factor, p[key], p.capacity_blocks]);
      return {
        lines: [{ points: [curve[0], curve.at(-1)].map((p) => [p.capacity_blocks * factor, infinite]), label: "infinite, by tokens: " + infinite.toFixed(6), color: "muted" }],
        x: { label: `size of the cache in ${u} (log)`, fmt: text, log: true },
        series: [{ name: "weighted by tokens", color: 0, line: true, points: points("token_weighted") }, { name: "weighted by requests", color: 1, line: true, points: points("request_weighted") }],
      };
    };
    const first = known.at(-1);
    const plot = figure(host, "Hit ratio by size of one LRU cache", {
      ...view(first), height: 300, y: { label: "hit ratio", fmt: (v) => String(+v.toFixed(3)), min: 0 },
      tip: (s, [, v, n]) => [s.name, [["hit ratio", v.toFixed(6)], ...known.map((u) => ["size", units[u][1](n * units[u][0]) + (u === "bytes" ? "" : " " + u)])]],
    });
    controls.append(h("label", {}, "Size in", perigee.choice("Unit of the size", known.map((u) => [u, u]), first, (u) => plot.set(view(u)))));
  };

  // offered draws the peak of the load by the length of the window that it is taken from.
  const offered = (host, _, { windows, offered_load: load, input, span_s: span }) => {
    const rate = load ? fmt.rate : (n) => count(n) + " tokens/s";
    const list = load ? load.windows.map((w) => ({ ...w, rate: w.gb_per_s * 1e9 })) : windows.map((w) => ({ ...w, rate: w.input_tokens / w.length_s }));
    const mean = load ? load.all_prompt.gb_per_s * 1e9 : input.sum_tokens / span, words = list.map((w) => seconds(w.length_s));
    figure(host, `Busiest window; dashed: the mean, ${rate(mean)}`, {
      bars: true, series: [{ name: "peak", color: 0, points: list.map((w, i) => [i, w.rate]) }],
      x: { label: "length of the window", fmt: (v) => words[v] ?? "", words, min: -0.5, max: words.length - 0.5 }, y: { label: (load ? "KV cache" : "input tokens") + " per second (log)", fmt: load ? fmt.rate : count, log: true, min: Math.min(mean, ...list.map((w) => w.rate)) / 1.2 },
      lines: [{ y: mean }],
      tip: (s, [i, v]) => [`busiest ${words[i]}`, [["offered", rate(v)], ["begins at", seconds(list[i].start_s)], ["peak to mean", fmt.ratio(list[i].peak_to_mean)]]],
    });
  };

  const charts = { arrivals, lengths, hits, offered };
  document.addEventListener("DOMContentLoaded", async () => {
    for (const trace of document.querySelectorAll("[data-trace]")) {
      const data = await perigee.data(trace.dataset.trace);
      for (const host of trace.querySelectorAll("[data-chart]")) {
        charts[host.dataset.chart](host, trace.querySelector(`[data-controls="${host.dataset.chart}"]`), data);
      }
    }
    window.traces = { ready: true };
  });
})();
