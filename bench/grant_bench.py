#!/usr/bin/env python3
"""What a grant costs in process, with the store on disk.

    bench/grant_bench.py BUILD/src/broker/broker_bench --out bench/results/DATE-grant.json

Each round runs every case once; the figures are medians over the rounds. TMPDIR says which disk.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess

from machine import commit, cpu_model

FIGURES = ("p50_us", "p99_us", "p999_us", "max_us")


def one_round(program):
    done = subprocess.run([program, "--benchmark_format=json"], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    cases = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        name, live = row["name"].split("/")[:2]
        cases[name.removeprefix("BM_"), int(live.removeprefix("live:"))] = row
    return cases


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("program")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--out", type=pathlib.Path)
    given = options.parse_args()
    load = os.getloadavg()[0]
    rounds = [one_round(given.program) for _ in range(given.rounds)]
    cases = []
    for name, live in rounds[0]:
        rows = [r[name, live] for r in rounds]
        cases.append({"what": name, "live_leases": live, "grants": int(rows[0]["grants"]),
                      **{f: round(statistics.median(r[f] for r in rows), 1) for f in FIGURES},
                      "rounds": [{f: round(r[f], 1) for f in FIGURES} for r in rows]})
    result = {"suite": "grant", "what": "a grant in process, store on disk (SQLite, WAL)",
              "date": datetime.date.today().isoformat(), "commit": commit(), "cpu": cpu_model(),
              "cores": len(os.sched_getaffinity(0)), "load_before": round(load, 2),
              "command": f"bench/grant_bench.py broker_bench --rounds {given.rounds}",
              "cases": cases}
    text = json.dumps(result, indent=2)
    if given.out:
        given.out.write_text(text + "\n")
    print(text)


main()
