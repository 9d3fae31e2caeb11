// The page of models: bytes of a request over its tokens.
"use strict";
perigee.data("curves").then((curves) => {
  const { fmt } = perigee;
  const tokens = (n) => (n >= 2 ** 20 ? n / 2 ** 20 + " Mi" : n >= 2 ** 10 ? n / 2 ** 10 + " Ki" : String(n));
  perigee.plot(document.getElementById("curve-chart"), {
    label: "Bytes that a request keeps, by its tokens", height: 380,
    x: { label: "Tokens", fmt: tokens, log: true, base: 2 }, y: { label: "Bytes", fmt: fmt.bytes, log: true },
    series: curves.map((c) => ({ name: c.name, line: true, points: c.points.filter((p) => p[1] > 0) })),
  });
  window.models = { ready: true };
});
