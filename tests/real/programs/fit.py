"""One point of a sweep: fit a line to noisy points, and write its slope into a file."""

import json
import random
import sys
from pathlib import Path

POINTS = 400_000

rank = int(sys.argv[1])
noise = random.Random(rank)
count = sum_x = sum_y = sum_xx = sum_xy = 0.0
for index in range(POINTS):
    x = index / POINTS
    y = 3 * x + 2 + noise.gauss(0, 0.1)
    count, sum_x, sum_y = count + 1, sum_x + x, sum_y + y
    sum_xx, sum_xy = sum_xx + x * x, sum_xy + x * y
slope = (count * sum_xy - sum_x * sum_y) / (count * sum_xx - sum_x**2)
Path(f"fit-{rank}.json").write_text(json.dumps({"rank": rank, "slope": slope}))
