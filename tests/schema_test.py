#!/usr/bin/env python3
"""What `sluice detect --json` and `sluice doctor --json` print keeps docs/schemas, on this
machine and in every demo scenario, and agrees with what Python sees of this machine.
Usage: schema_test.py SLUICE"""
import copy
import json
import os
import pathlib
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: this Python has no jsonschema (./test installs it)")
    sys.exit(77)

SLUICE = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parent.parent
SCENARIOS = sorted(p.stem for p in (ROOT / "tests/fake_nvml/scenarios").glob("*.json"))
MOMENTS = ("0", "12", "45")  # before, during and after what happens in a scenario
problems = []


def expect(ok, what):
    if not ok:
        problems.append(what)


def validator(command):
    schema = json.loads((ROOT / f"docs/schemas/{command}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def ask(command, *args):
    done = subprocess.run([SLUICE, command, "--json", *args], capture_output=True, text=True,
                          timeout=60)
    expect(done.stderr == "", f"{command} {args}: {done.stderr}")
    return done.returncode, json.loads(done.stdout)


def check(command, document, where):
    for error in VALIDATORS[command].iter_errors(document):
        expect(False, f"{command} {where}: {error.json_path}: {error.message}")


def check_doctor(code, document, where):
    check("doctor", document, where)
    counts = {s: sum(c["status"] == s for c in document["checks"]) for s in ("pass", "warn", "fail")}
    expect(counts == document["summary"], f"doctor {where}: the summary does not count")
    expect(code == (1 if counts["fail"] else 0), f"doctor {where}: exit code {code}")
    ids = [c["id"] for c in document["checks"]]
    expect(len(ids) == len(set(ids)), f"doctor {where}: an id appears twice")


def check_this_machine(cpu):
    allowed = len(os.sched_getaffinity(0))
    expect(cpu["logical_cores"] == os.cpu_count(), f"{cpu['logical_cores']} logical cores")
    expect(0 < cpu["usable_cores"] <= allowed, f"{cpu['usable_cores']} usable of {allowed}")
    memory = next(line for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    expect(cpu["memory_total_bytes"] == int(memory.split()[1]) * 1024, "memory_total_bytes")
    flags = next((l.split(":")[1].split() for l in open("/proc/cpuinfo") if l.startswith("flags")), [])
    for name in ("avx2", "avx512f", "amx_tile"):
        expect((name in cpu["isa"]) == (name in flags) or not flags, f"isa: {name}")


def check_refused(command, document, change, what):
    broken = copy.deepcopy(document)
    change(broken)
    expect(not VALIDATORS[command].is_valid(broken), f"the {command} schema takes {what}")


VALIDATORS = {command: validator(command) for command in ("detect", "doctor")}

code, here = ask("detect")
expect(code == 0, f"detect: exit code {code}")
check("detect", here, "here")
check_this_machine(here["cpu"])
check_doctor(*ask("doctor"), "here")

for scenario in SCENARIOS:
    for moment in MOMENTS:
        args = ("--demo", scenario, "--demo-at", moment)
        code, document = ask("detect", *args)
        expect(code == 0, f"detect {args}: exit code {code}")
        check("detect", document, args)
        check_doctor(*ask("doctor", *args), args)

# A schema that takes anything would pass all of the above.
gpus = ask("detect", "--demo", "eight-gpus")[1]
check_refused("detect", gpus, lambda d: d["gpus"][0].pop("uuid"), "a GPU without a UUID")
check_refused("detect", gpus, lambda d: d["gpus"][0].update(temprature=40), "an unknown key")
check_refused("detect", gpus, lambda d: d["gpus"][0].update(numa_node=-1), "a sentinel")
check_refused("detect", gpus, lambda d: d["gpus"][0].update(bus="00000000:0Z:00.0"), "a bad bus")
check_refused("detect", gpus, lambda d: d["cpu"].update(usable_cores=0), "no usable core")
checks = ask("doctor", "--demo", "old-driver")[1]
check_refused("doctor", checks, lambda d: d["checks"][0].update(status="ok"), "another verdict")
check_refused("doctor", checks, lambda d: d["checks"][0].update(fix="x"), "a pass with a fix")
check_refused("doctor", checks, lambda d: [c.update(fix="") for c in d["checks"]],
              "a failure without a fix")

print("\n".join(problems) or f"schemas: this machine and {len(SCENARIOS)} scenarios keep them")
sys.exit(bool(problems))
