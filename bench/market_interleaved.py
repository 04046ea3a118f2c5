#!/usr/bin/env python3
"""Interleaved measurements of indicators and TA-Lib on one core, for machines whose speed varies.

    bench/market_interleaved.py build/sluice --python .venv/bin/python \\
        --out bench/results/DATE-market-interleaved.json

Each round runs `sluice bench market`, which measures Sluice and then the library for a moment each.
Figures are medians over the rounds, ratios are medians of the ratios of single rounds (above 1:
Sluice is faster).
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess

from machine import commit, cpu_model, vectors

FIGURES = ("ema_cached", "sma_cached", "rsi_cached", "bbands_cached")


def one_round(program, python, figure):
    done = subprocess.run([program, "bench", "market", "--cpu", "--json", "--only", figure,
                           "--python", python], check=True, text=True, stdout=subprocess.PIPE)
    row = json.loads(done.stdout)["devices"][0]["results"][0]
    if not row.get("peers"):
        raise SystemExit(f"{python} has no TA-Lib to compare {figure} with")
    return row


def case_of(figure, rows):
    ratios = [row["value"] / row["peers"][0]["value"] for row in rows]
    return {"name": figure, "title": rows[0]["title"], "unit": rows[0]["unit"],
            "peer": rows[0]["peers"][0]["name"],
            "value": statistics.median(row["value"] for row in rows),
            "peer_value": statistics.median(row["peers"][0]["value"] for row in rows),
            "ratio": round(statistics.median(ratios), 2),
            "ratios": sorted(round(ratio, 2) for ratio in ratios)}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("program", help="build/sluice")
    options.add_argument("--python", default="python3", help="one that has TA-Lib")
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--out", type=pathlib.Path)
    given = options.parse_args()
    rows = {figure: [] for figure in FIGURES}
    for _ in range(given.rounds):
        for figure in FIGURES:
            rows[figure].append(one_round(given.program, given.python, figure))
    cases = [case_of(figure, rows[figure]) for figure in FIGURES]
    for case in cases:
        print(f"{case['title']:<24} {case['value'] / 1e6:7,.0f} M{case['unit']}"
              f"  {case['ratio']:5.2f} x {case['peer']}"
              f"  ({case['ratios'][0]:.2f} to {case['ratios'][-1]:.2f})")
    if given.out:
        result = {"suite": "market-turns", "date": datetime.date.today().isoformat(),
                  "commit": commit(), "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)),
                  "vectors": vectors(),
                  "rounds": given.rounds, "cases": cases}
        given.out.write_text(json.dumps(result, indent=2) + "\n")


main()
