# SPDX-License-Identifier: Apache-2.0
"""Validates records against docs/record.schema.json.

  validate.py SCHEMA RECORDS.jsonl...    every line must be valid
  validate.py SCHEMA --broken            a schema that accepts everything proves nothing: damaged records must be refused
"""

import copy
import json
import sys

import jsonschema

RECORD = {
    "schema": "d5-record/1", "kind": "op", "case": {"operator": "Gemm", "m": 512}, "status": "passed", "reason": "",
    "samples": {"time_s": [0.1, None], "launch": [0, 0], "round": [0, 1], "start_s": [0, 0.1], "warmup_s": [], "batch": 1},
    "group": "g", "metrics": {"time": {"unit": "s", "median": 0.1, "ci95": [0.1, 0.1], "n": 2, "n_eff": 2}},
    "bound": {"name": "roofline", "value": 0.08, "unit": "s", "share": 0.8}, "stopped": "converged", "warnings": [],
    "environment": "0123456789abcdef", "rerun": "d5 op Gemm --m 512", "details": {},
}

DAMAGES = {
    "another schema": lambda r: r.update(schema="d5-record/2"),
    "no case": lambda r: r.pop("case"),
    "an unknown status": lambda r: r.update(status="ok"),
    "an unknown member": lambda r: r.update(speed=1),
    "text for a time": lambda r: r["samples"]["time_s"].append("fast"),
    "a batch of 0": lambda r: r["samples"].update(batch=0),
    "an interval with one end": lambda r: r["metrics"]["time"].update(ci95=[0.1]),
    "a metric without n_eff": lambda r: r["metrics"]["time"].pop("n_eff"),
    "a bound without its share": lambda r: r["bound"].pop("share"),
    "an environment with a status": lambda r: r.update(kind="environment"),
}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    if sys.argv[2] == "--broken":
        validator.validate(RECORD)
        for name, damage in DAMAGES.items():
            record = copy.deepcopy(RECORD)
            damage(record)
            if validator.is_valid(record):
                sys.exit(f"the schema accepts {name}")
        print(f"{len(DAMAGES)} damaged records refused")
        return
    count = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                problem = jsonschema.exceptions.best_match(validator.iter_errors(json.loads(line)))
                if problem:
                    sys.exit(f"{path}:{number}: {problem.json_path}: {problem.message}")
                count += 1
    if count == 0:
        sys.exit("no records")
    print(f"{count} records valid")


main()
