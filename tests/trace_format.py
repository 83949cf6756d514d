# SPDX-License-Identifier: Apache-2.0
"""What every file in the trace-event format must be; shared by the tests of d5 net --trace and d5 train --trace."""


def spans(test, events, slack):
    """Every event has its fields, and spans of a thread nest (to `slack` microseconds). Gives the spans."""
    found, ends = [], {}
    for event in events:
        for field, kind in {"ph": str, "ts": (int, float), "pid": int, "tid": int, "name": str}.items():
            test.assertIsInstance(event[field], kind, event)
        test.assertIn(event["ph"], "XiM")
        if event["ph"] != "X":
            continue
        begin, end = event["ts"], event["ts"] + event["dur"]
        test.assertGreaterEqual(event["dur"], 0)
        inside = ends.setdefault((event["pid"], event["tid"]), [])
        while inside and inside[-1] <= begin + 1e-6:
            inside.pop()
        if inside:
            test.assertLessEqual(end, inside[-1] + slack, event)
        inside.append(end)
        found.append(event)
    return found
