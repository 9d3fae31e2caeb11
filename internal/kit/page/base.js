// What the pages of perigee share: data, themes, numbers, tooltips, tables.
// Everything is a property of perigee; nothing here asks the network.
"use strict";
const perigee = {};

(() => {
  const root = document.documentElement;
  const watchers = new Set();

  // data(id) is a promise of the JSON value embedded under that name.
  perigee.data = async (id) => {
    const text = document.getElementById("data-" + id).textContent.trim();
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(plain).json();
  };

  // Themes. "auto" follows the system; a choice is kept where that is allowed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try { return localStorage.getItem("perigee-theme"); } catch { return null; }
  };
  const keep = (v) => {
    try { localStorage.setItem("perigee-theme", v); } catch { /* a private window */ }
  };
  perigee.isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  perigee.onTheme = (fn) => { watchers.add(fn); };
  const announce = () => {
    for (const b of document.querySelectorAll("[data-theme-toggle]")) {
      b.setAttribute("aria-pressed", String(perigee.isDark()));
    }
    for (const fn of watchers) fn();
  };
  perigee.setTheme = (theme) => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    announce();
  };
  dark.addEventListener("change", announce);
  // Paper is white.
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme || ""; perigee.setTheme("light"); });
  addEventListener("afterprint", () => { perigee.setTheme(before); });

  // color(name) is the value of the design token --name now.
  perigee.color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  // series(i) is a colour for the i-th of several things, told apart by the colour-blind for i < 8.
  perigee.series = (i) => perigee.color("series-" + (i % 8 + 1));

  // h(tag, attributes, children...) makes an element; strings become text.
  perigee.h = (tag, attrs, ...children) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs || {})) {
      if (v === undefined || v === null || v === false) continue;
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else e.setAttribute(k, v === true ? "" : v);
    }
    e.append(...children.flat().filter((c) => c !== null && c !== undefined));
    return e;
  };

  // Numbers as people read them. Sizes count in powers of 1000, as perigee's tables do.
  const digits = (x) => {
    const a = Math.abs(x);
    if (a === 0) return "0";
    return x.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2);
  };
  const scaled = (x, steps) => {
    if (x === null || x === undefined || !Number.isFinite(x)) return "\u2013";
    let [factor, unit] = steps[0];
    for (const [f, u] of steps) if (Math.abs(x) >= f * 0.9995) [factor, unit] = [f, u];
    return digits(x / factor) + "\u202f" + unit;
  };
  perigee.fmt = {
    bytes: (n) => scaled(n, [[1, "B"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"], [1e12, "TB"], [1e15, "PB"]]),
    rate: (n) => scaled(n, [[1, "B/s"], [1e3, "kB/s"], [1e6, "MB/s"], [1e9, "GB/s"], [1e12, "TB/s"]]),
    ns: (n) => scaled(n, [[1, "ns"], [1e3, "\u00b5s"], [1e6, "ms"], [1e9, "s"]]),
    ratio: (n) => n === null || n === undefined || !Number.isFinite(n) ? "\u2013" : n.toFixed(2) + "\u00d7",
    number: (n) => n === null || n === undefined || !Number.isFinite(n) ? "\u2013"
      : Math.abs(n) >= 1e6 || Math.abs(n) < 1e-3 && n !== 0 ? n.toExponential(2) : String(+n.toPrecision(5)),
    percent: (n) => (n * 100).toFixed(n < 0.1 ? 1 : 0) + "\u202f%",
  };

  // tip.show(x, y, title, rows) puts a box beside a point of the window; rows are [name, value].
  const box = perigee.h("div", { class: "tip", role: "status", hidden: true });
  perigee.tip = {
    show(x, y, title, rows = []) {
      box.replaceChildren(perigee.h("b", {}, title), ...rows.map(([k, v]) => perigee.h("div", {}, perigee.h("span", {}, k), perigee.h("span", {}, v))));
      box.hidden = false;
      const r = box.getBoundingClientRect();
      const left = x + 14 + r.width > innerWidth ? x - 14 - r.width : x + 14;
      const top = y + 14 + r.height > innerHeight ? y - 14 - r.height : y + 14;
      box.style.left = Math.max(4, left) + "px";
      box.style.top = Math.max(4, top) + "px";
    },
    hide() { box.hidden = true; },
    text: () => (box.hidden ? "" : box.innerText),
  };

  // sortable(table) lets the headers sort the rows, by data-value where a cell has one.
  perigee.sortable = (table) => {
    const body = table.tBodies[0];
    const value = (row, i) => {
      const cell = row.cells[i];
      const v = cell.dataset.value ?? cell.textContent;
      return v !== "" && !Number.isNaN(Number(v)) ? Number(v) : v;
    };
    const sort = (th, i) => {
      const ascending = th.getAttribute("aria-sort") === "descending" || !th.getAttribute("aria-sort") && !th.classList.contains("num");
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const sign = ascending ? 1 : -1;
      const rows = [...body.rows].map((row, at) => ({ row, at, v: value(row, i) }));
      rows.sort((a, b) => {
        const an = typeof a.v === "number", bn = typeof b.v === "number";
        if (an !== bn) return an ? -1 : 1; // what has no number stands last
        return sign * (an ? a.v - b.v : a.v.localeCompare(b.v)) || a.at - b.at;
      });
      body.append(...rows.map((r) => r.row));
    };
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      const button = perigee.h("button", { type: "button", class: "sort", onclick: () => sort(th, i) });
      button.append(...th.childNodes);
      th.append(button);
    });
  };

  // tabs(list) makes a [role=tablist] whose tabs name their panels by aria-controls work.
  perigee.tabs = (list, chosen = () => {}) => {
    const tabs = [...list.querySelectorAll('[role="tab"]')];
    const select = (tab, focus) => {
      for (const t of tabs) {
        const on = t === tab;
        t.setAttribute("aria-selected", String(on));
        t.tabIndex = on ? 0 : -1;
        document.getElementById(t.getAttribute("aria-controls")).hidden = !on;
      }
      if (focus) tab.focus();
      chosen(tab);
    };
    list.addEventListener("click", (e) => {
      const tab = e.target.closest('[role="tab"]');
      if (tab) select(tab);
    });
    list.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!step) return;
      e.preventDefault();
      select(tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length], true);
    });
    return (i) => select(tabs[i]);
  };

  // choice(label, options, initial, change) is a row of buttons of which one is pressed; options are [value, text].
  perigee.choice = (label, options, initial, change) => {
    const group = perigee.h("span", { class: "segmented", role: "group", "aria-label": label });
    for (const [value, text] of options) {
      group.append(perigee.h("button", {
        type: "button", "data-value": value, "aria-pressed": String(value === initial),
        onclick: (e) => {
          for (const b of group.children) b.setAttribute("aria-pressed", String(b === e.currentTarget));
          change(value);
        },
      }, text));
    }
    return group;
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(box);
    for (const b of document.querySelectorAll("[data-theme-toggle]")) {
      b.addEventListener("click", () => {
        const next = perigee.isDark() ? "light" : "dark";
        keep(next);
        perigee.setTheme(next);
      });
    }
    for (const t of document.querySelectorAll("table.sortable")) perigee.sortable(t);
    const was = kept();
    if (was === "dark" || was === "light") perigee.setTheme(was); else announce();
    addEventListener("keydown", (e) => { if (e.key === "Escape") perigee.tip.hide(); });
    addEventListener("scroll", () => perigee.tip.hide(), { passive: true });
  });
})();
