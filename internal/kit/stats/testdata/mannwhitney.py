# Makes mannwhitney.json with scipy, the independent reference of the test in Go:
#   python3 -m venv venv && venv/bin/pip install scipy==1.17.1
#   venv/bin/python mannwhitney.py > mannwhitney.json
import json
import sys

import numpy as np
import scipy
from scipy import stats

MOST_EXACT = 50  # as in mannwhitney.go
rng = np.random.default_rng(20240607)
cases = []


def add(name, x, y):
    x, y = [float(v) for v in x], [float(v) for v in y]
    both = x + y
    ties = len(set(both)) < len(both)
    exact = not ties and max(len(x), len(y)) <= MOST_EXACT
    test = stats.mannwhitneyu(x, y, use_continuity=True, alternative="two-sided", method="exact" if exact else "asymptotic")
    cases.append({"name": name, "x": x, "y": y, "exact": exact, "u": float(test.statistic), "p": float(test.pvalue)})


add("one and one", [1], [2])
add("one and five", [3.5], [1, 2, 3, 4, 5])
add("apart", [1, 2, 3], [4, 5, 6])
add("apart, the other way", [4, 5, 6], [1, 2, 3])
add("in the middle", [1, 4], [2, 3])
add("two ties", [1, 2, 2, 3], [2, 4, 5, 6])
add("only two values", [1, 1, 1, 2, 2], [1, 2, 2, 2, 2, 2])
add("negative and large", [-1e300, -5, 0.25, 7e250], [-2, 1e-300, 3, 4e299, 5])
for n, m in [(2, 2), (3, 5), (4, 4), (5, 9), (8, 8), (10, 30), (1, 50), (20, 20), (50, 50), (50, 7), (49, 50)]:
    for shift in (0, 0.5, 3):
        add(f"normal {n} and {m}, shifted by {shift}", rng.normal(0, 1, n), rng.normal(shift, 1, m))
for n, m in [(51, 5), (51, 51), (60, 200), (1000, 300), (400, 400)]:
    for factor in (1, 1.05, 2):
        add(f"lognormal {n} and {m}, times {factor}", rng.lognormal(3, 0.2, n), factor * rng.lognormal(3, 0.2, m))
for n, m in [(3, 3), (5, 8), (20, 30), (50, 50), (200, 100)]:
    for most in (2, 4, 20):
        add(f"integers below {most}, {n} and {m}", rng.integers(0, most, n), rng.integers(0, most, m))
        add(f"integers below {most} and {most + 1}, {n} and {m}", rng.integers(0, most, n), rng.integers(0, most + 1, m))

json.dump({"made_with": f"scipy {scipy.__version__}, numpy {np.__version__}", "cases": cases}, sys.stdout, separators=(",", ":"))
print()
