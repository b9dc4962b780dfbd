"""One train over a link of 100 Mbit/s with Poisson cross traffic of 50 %: rates, the queue, the account."""

import random
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

matplotlib.rcParams.update(
    {"svg.fonttype": "none", "font.size": 10, "font.family": "sans-serif", "svg.hashsalt": "vtare"}
)
rng = random.Random(11)
C = 1e8
bit = 12000.0
near = 5e7
head = 30
stream_rate = 1.02 * near
n = 90
probes = [i * bit / 1e9 for i in range(head)]
t0 = head * bit / near * 0.5
probes += [t0 + i * bit / stream_rate for i in range(n)]
t, cross = 0.0, []
while t < probes[-1] + 1e-3:
    t += rng.expovariate(5e7 / bit)
    cross.append(t)
events = sorted([(p, True) for p in probes] + [(c, False) for c in cross])
q, last = 0.0, 0.0
ts, qs, pt, pd = [], [], [], []
for at, own in events:
    q = max(0.0, q - (at - last))
    last = at
    ts += [at, at]
    qs += [q, q + bit / C]
    if own:
        pt.append(at)
        pd.append(q)
    q += bit / C
ms = 1e3
fig, (a, b) = plt.subplots(2, 1, figsize=(8.4, 4.8), sharex=True, height_ratios=(1, 3.2), layout="constrained")
a.vlines([p * ms for p in probes], 0.55, 1, color="#1f6fb2", lw=1)
a.vlines([c * ms for c in cross], 0, 0.42, color="#8a8a8a", lw=1)
a.set_yticks([0.2, 0.78], ["cross traffic", "probes"])
a.set_ylim(0, 1.05)
for side in ("top", "right", "left"):
    a.spines[side].set_visible(False)
a.tick_params(length=0)
b.plot([x * ms for x in ts], [y * ms for y in qs], color="#b9cfe3", lw=1)
b.plot([x * ms for x in pt], [y * ms for y in pd], ".", color="#1f6fb2", ms=5)
begin = next(i for i, x in enumerate(pt) if x > t0 + 1.2 * head * bit / C)
x1, y1, x2, y2 = pt[begin] * ms, pd[begin] * ms, pt[-1] * ms, pd[-1] * ms
b.plot([x1, x2], [y1, y2], "o-", color="#c0392b", lw=1.6, ms=7, mfc="white", zorder=5)
T = (x2 - x1) / ms
s = (y2 - y1) / ms / T
R = (len(pt) - 1 - begin) * bit / T
A = R - C * s
true = C - sum(1 for c in cross if pt[begin] < c <= pt[-1]) * bit / T
b.annotate(
    f"account from here to there: {T * 1e3:.1f} ms\nR = {R / 1e6:.1f} Mbit/s, s = {s:+.4f}\n"
    f"A = R \u2212 C s = {A / 1e6:.1f} Mbit/s; counted at the link: {true / 1e6:.1f}",
    ((x1 + x2) / 2, (y1 + y2) / 2),
    xytext=(x1 + 1.2, max(qs) * ms * 1.2),
    color="#8e2a1e",
    va="top",
    arrowprops={"arrowstyle": "-", "color": "#c0392b", "lw": 0.8},
)
b.annotate(
    "head: fills the queue",
    (probes[head - 1] * ms + 0.05, qs[2 * head] * ms),
    xytext=(0.7, max(qs) * ms * 1.08),
    va="top",
    color="#333333",
)
b.set_ylabel("wait of a packet, ms")
b.set_xlabel("time, ms")
b.set_ylim(0, max(qs) * ms * 1.22)
b.set_xlim(-0.3, pt[-1] * ms + 0.4)
for side in ("top", "right"):
    b.spines[side].set_visible(False)
fig.savefig(Path(__file__).with_name("avb-train.svg"), metadata={"Date": None})
