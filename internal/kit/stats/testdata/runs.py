# Makes runs.json with scipy, the independent reference of the test in Go:
#   python3 -m venv venv && venv/bin/pip install scipy==1.17.1
#   venv/bin/python runs.py > runs.json
import itertools
import json
import math
import sys

import numpy as np
import scipy
from scipy import optimize, special, stats

rng = np.random.default_rng(20261122)
ALPHA = 0.05


def moderated(rows, first):
    """t of every row of one kind for the runs in first against the others (Smyth 2004)."""
    mask = np.zeros(rows.shape[1], bool)
    mask[list(first)] = True
    x, y = rows[:, mask], rows[:, ~mask]
    n, m = x.shape[1], y.shape[1]
    own = n + m - 2
    diff = y.mean(1) - x.mean(1)
    var = (((x.T - x.mean(1)) ** 2).sum(0) + ((y.T - y.mean(1)) ** 2).sum(0)) / own
    if len(rows) > 1:
        e = np.log(var) - special.digamma(own / 2) + math.log(own / 2)
        excess = e.var(ddof=1) - special.polygamma(1, own / 2)
        if excess <= 0:
            var = np.full(len(rows), math.exp(e.mean()))
        else:
            half = optimize.brentq(lambda v: special.polygamma(1, v) - excess, 1e-6, 1e9)
            scale = math.exp(e.mean() + special.digamma(half) - math.log(half))
            var = (2 * half * scale + own * var) / (2 * half + own)
    return diff / np.sqrt(var * (1 / n + 1 / m))


def reference(rows, n):
    runs = rows.shape[1]
    observed = moderated(rows, range(n))
    splits = [np.abs(moderated(rows, s)) for s in itertools.combinations(range(runs), n)]
    limit = np.abs(observed) * (1 - 1e-9)
    p = np.mean([s >= limit for s in splits], axis=0)
    adjusted = np.zeros(len(rows))
    order = np.argsort(-np.abs(observed))
    last = 0.0
    for k, i in enumerate(order):
        last = max(last, np.mean([s[order[k:]].max() >= limit[i] for s in splits]))
        adjusted[i] = last
    interval = [stats.ttest_ind(r[n:], r[:n]).confidence_interval(1 - ALPHA) for r in rows]
    return {"t": observed.tolist(), "p": p.tolist(), "adjusted": adjusted.tolist(), "low": [float(i.low) for i in interval], "high": [float(i.high) for i in interval]}


cases = []
for n, m in [(4, 4), (5, 4), (3, 6), (5, 5), (2, 8)]:
    for count in [1, 2, 8, 20]:
        for name in ["alike", "spreads differ", "whole runs differ", "one is slow"]:
            rows = rng.normal(0, 0.05, (count, n + m))
            if name == "spreads differ":
                rows *= np.exp(rng.normal(0, 1.5, (count, 1)))
            if name == "whole runs differ":
                rows += rng.normal(0, 0.5, (1, n + m))
            if name == "one is slow":
                rows[count // 2, n:] += math.log(22)
            rows += rng.normal(3, 2, (count, 1))
            cases.append({"name": f"{name}, {count} rows", "n": n, "rows": rows.tolist(), **reference(rows, n)})

json.dump({"scipy": scipy.__version__, "alpha": ALPHA, "cases": cases}, sys.stdout)
print()
