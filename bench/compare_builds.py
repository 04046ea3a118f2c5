#!/usr/bin/env python3
"""Two builds of Sluice in alternating rounds: is the new one slower anywhere?

    bench/compare_builds.py OLD NEW [--only leases engine market] [--rounds 7] [--out FILE]

OLD and NEW are folders with sluice, broker_bench and lease_load of one build each, and the file
COMMIT that names it. Every round
times both, in an order that changes from round to round, so that a machine whose speed drifts
treats them alike. A ratio above 1 means that NEW is faster; it is the median of the ratios of
single rounds. Exit 1 where a row is below --least (0.98).
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import types

import lease_bench
from machine import commit, cpu_model
from models import input_flags, inputs_of, model_file

MODELS = (("minilm-l6", 1, 128), ("minilm-l6", 8, 128), ("bert-base", 1, 128), ("resnet50", 1, 0),
          ("mobilenet-v2", 1, 0), ("mlp", 32, 0))


def output_of(*command):
    return json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL).stdout)


class Leases:
    """In process: broker_bench. Over the socket, flat out: pairs of request and release."""

    def __init__(self, ask):
        self.seconds = ask.seconds

    def measure(self, build):
        rows = {}
        for row in output_of(f"{build}/broker_bench", "--benchmark_format=json")["benchmarks"]:
            for figure in ("p50_us", "p99_us"):
                if figure in row:
                    rows[f"{row['name']} {figure}"] = -row[figure]
        ask = types.SimpleNamespace(sluice=f"{build}/sluice", load=f"{build}/lease_load", clients=64,
                                    seconds=self.seconds, realtime=False, serve="")
        rows["pairs/s over the socket"] = lease_bench.one(ask, 0)["pairs_per_s"]
        return rows


class Engine:
    def __init__(self, ask):
        self.seconds, self.models, self.folder = ask.seconds, [], tempfile.TemporaryDirectory()
        for model, batch, length in MODELS:
            name = f"{model} b{batch}" + (f" s{length}" if length else "")
            folder = pathlib.Path(self.folder.name, name.replace(" ", "-"))
            folder.mkdir()
            self.models.append((name, model_file(pathlib.Path(ask.models), model),
                                input_flags(inputs_of(model, batch, length), folder)))

    def measure(self, build):
        rows = {}
        for name, path, inputs in self.models:
            result = output_of(f"{build}/sluice", "bench", "model", path, *inputs, "--backend", "cpu",
                               "--precision", "fp32", "--no-peak", "--no-plans", "--json", "--seconds",
                               str(self.seconds))
            rows[name] = -result["rows"][0]["p50_seconds"]
        return rows


class Market:
    def __init__(self, _):
        pass

    def measure(self, build):
        result = output_of(f"{build}/sluice", "bench", "market", "--cpu", "--quick", "--json",
                           "--python", "")
        return {row["name"]: row["value"] for row in result["devices"][0]["results"]}


SUBJECTS = {"leases": Leases, "engine": Engine, "market": Market}


def speed(old, new):
    """Above 1 where the new figure is better; times are negative."""
    return new / old if old > 0 else old / new


def measure(ask):
    rows = []
    for subject in ask.only:
        bench, rounds = SUBJECTS[subject](ask), []
        for turn in range(ask.rounds):
            order = (ask.old, ask.new) if turn % 2 == 0 else (ask.new, ask.old)
            done = {build: bench.measure(build) for build in order}
            rounds.append((done[ask.old], done[ask.new]))
            print(f"{subject}: round {turn + 1} of {ask.rounds}", file=sys.stderr)
        first, second = rounds[0]
        if alone := sorted(set(first) ^ set(second)):
            print(f"{subject}: in one build only: {', '.join(alone)}", file=sys.stderr)
        for name in (name for name in first if name in second):
            ratios = [speed(old[name], new[name]) for old, new in rounds]
            rows.append({"subject": subject, "name": name,
                         "old": abs(statistics.median(old[name] for old, _ in rounds)),
                         "new": abs(statistics.median(new[name] for _, new in rounds)),
                         "ratio": round(statistics.median(ratios), 3),
                         "ratios": sorted(round(ratio, 3) for ratio in ratios)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", nargs="*", default=list(SUBJECTS), choices=SUBJECTS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5,
                        help="for each figure of a round; 25,000 leases in a row are refused")
    parser.add_argument("--least", type=float, default=0.98)
    parser.add_argument("--models", default="/tmp/models", help="made there where they are not")
    parser.add_argument("--out")
    ask = parser.parse_args()
    old = pathlib.Path(ask.old, "COMMIT").read_text().strip()
    rows = measure(ask)
    result = {"suite": "compare_builds", "date": datetime.date.today().isoformat(),
              "commit": commit(), "old": old, "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)),
              "rounds": ask.rounds, "rows": rows}
    if ask.out:
        pathlib.Path(ask.out).write_text(json.dumps(result, indent=2) + "\n")
    for row in rows:
        slow = "" if row["ratio"] >= ask.least else "  SLOWER"
        print(f"{row['subject']:8} {row['name']:44} {row['ratio']:.3f}{slow}")
    sys.exit(any(row["ratio"] < ask.least for row in rows))


if __name__ == "__main__":
    main()
