# SPDX-License-Identifier: Apache-2.0
"""The median of a few rounds and its 95 % interval by order statistics, as the comparisons here print it."""
import math
import statistics


def median_interval(values):
    """The narrowest pair of order statistics that holds the median with 95 %; None: too few values."""
    ordered, n = sorted(values), len(values)
    tail, outside = 0.0, None
    for k in range(n // 2):
        tail += math.comb(n, k) / 2 ** n
        if 2 * tail > 0.05:
            break
        outside = k
    return None if outside is None else (ordered[outside], ordered[n - 1 - outside])


def with_interval(values):
    interval = median_interval(values)
    shown = f"[{interval[0]:.3f}, {interval[1]:.3f}]" if interval else f"(no interval from {len(values)} rounds)"
    return f"{statistics.median(values):.3f} {shown}"
