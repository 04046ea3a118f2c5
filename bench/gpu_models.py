"""What the benchmarks of models on a GPU share: their options, and their result file."""
import argparse
import datetime
import json
import pathlib
import subprocess

from machine import commit


def arguments(description):
    options = argparse.ArgumentParser(description=description.splitlines()[0])
    options.add_argument("program", help="build/sluice")
    options.add_argument("--models", type=pathlib.Path, required=True, help="folder of the models")
    options.add_argument("--only", nargs="*", default=[""], help="cases that begin so")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=1.0, help="for each measurement of a round")
    options.add_argument("--out", type=pathlib.Path)
    return options.parse_args()


def first_gpu():
    """Its name and driver, without the program that is measured: an older one may not tell them."""
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout.splitlines()[0].split(", ")


def result(given, script, what, peers):
    """What stands above the cases in a result file."""
    device, driver = first_gpu()
    only = f" --only {' '.join(given.only)}" if given.only != [""] else ""
    return {"suite": "engine", "what": what, "date": datetime.date.today().isoformat(),
            "commit": commit(), "device": device, "driver": driver, "peers": peers,
            "command": f"bench/{script} build/sluice --models DIR --rounds {given.rounds} "
                       f"--seconds {given.seconds}{only}",
            "cases": []}


def measure_cases(into, cases, measure, given):
    """Writes the file after each case, so that an interrupted run leaves what it has."""
    for case in cases:
        if case.startswith(tuple(given.only)):
            into["cases"].append(measure(case, given))
            if given.out:
                given.out.write_text(json.dumps(into, indent=2) + "\n")
