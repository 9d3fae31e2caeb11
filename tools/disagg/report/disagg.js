// The page of a batch of benchmarks: curves, trade-off and history.
"use strict";
perigee.data("disagg").then((data) => {
  const { h, fmt } = perigee;
  const find = (id) => document.getElementById(id);
  for (const table of document.querySelectorAll("table.sortable")) perigee.sortable(table);
  const short = (test) => test.replace(/^test_\w+\[(.*)\]$/, "$1");
  const unit = (metric) => metric + (/TTFT|TPOT|ITL|E2EL/.test(metric) ? " (ms)" : "");

  const metrics = [...new Set(data.curves.map((c) => c.metric))];
  find("metric").append(...metrics.map((m) => h("option", { value: m, selected: m === "SERVER_MEDIAN_TTFT" }, m)));
  const drawCurves = () => {
    const metric = find("metric").value;
    find("curve-chart").replaceChildren();
    if (!metric) return;
    perigee.plot(find("curve-chart"), {
      label: unit(metric) + " by concurrency", x: { label: "Concurrency", fmt: fmt.number, log: true, base: 2 }, y: { label: unit(metric), fmt: fmt.number },
      series: data.curves.filter((c) => c.metric === metric).map((c) => ({
        name: short(c.test), line: true, points: c.points.map((p) => [p.x, p.y, { range: p.range, runs: p.runs }]),
      })),
      tip: (s, p) => [s.name, [["Concurrency", fmt.number(p[0])], [unit(metric), fmt.number(p[1])], ["Runs", String(p[2].runs)]]
        .concat(p[2].range ? [["Interval", p[2].range.map(fmt.number).join(" to ")]] : [])],
    });
  };
  find("metric").addEventListener("change", drawCurves);
  drawCurves();

  if (data.trades.length) {
    const y = data.per_gpu ? "Tokens/s per GPU" : "Tokens/s";
    const cases = [...new Set(data.trades.map((t) => t.case))];
    const series = cases.map((name) => ({ name, points: data.trades.filter((t) => t.case === name).map((t) => [t.x, t.y, { concurrency: t.concurrency }]) }));
    const front = data.trades.filter((t) => t.front).sort((a, b) => a.x - b.x);
    series.push({ name: "Pareto front", color: "faint", line: true, marks: false, points: front.map((t) => [t.x, t.y, { concurrency: t.concurrency }]) });
    perigee.plot(find("trade-chart"), {
      label: "Throughput against speed for a user", x: { label: "Tokens/s per user", fmt: fmt.number }, y: { label: y, fmt: fmt.number }, series,
      tip: (s, p) => [s.name, [["Concurrency", String(p[2].concurrency)], ["Tokens/s per user", fmt.number(p[0])], [y, fmt.number(p[1])]]],
    });
  }

  const named = (p) => `${short(p.test)}, concurrency ${p.concurrency}, ${p.metric}`;
  find("figure").append(...data.history.map((p, i) => h("option", { value: String(i) }, named(p))));
  const drawHistory = () => {
    const p = data.history[Number(find("figure").value)];
    find("history-chart").replaceChildren();
    if (!p) return;
    const day = (s) => new Date(s * 1000).toISOString().slice(0, 16).replace("T", " ");
    perigee.plot(find("history-chart"), {
      label: named(p) + " over time", x: { label: "Started (UTC)", fmt: day, date: true }, y: { label: unit(p.metric), fmt: fmt.number },
      series: [{ name: named(p), line: true, points: p.values.map((v, i) => [p.times[i], v]) }],
    });
  };
  find("figure").addEventListener("change", drawHistory);
  drawHistory();
  window.disagg = { ready: true };
});
