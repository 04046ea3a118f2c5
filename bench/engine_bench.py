#!/usr/bin/env python3
"""Models on the CPU beside ONNX Runtime and OpenVINO, in turn, on the same inputs.

    bench/engine_bench.py build/sluice --models /tmp/models --out bench/results/DATE-engine-2-cores.json

Needs the Python packages onnx, numpy, onnxruntime and openvino; a peer that is missing is left out.
Models are made by tools/make_model.py where --models lacks them. Each round times every program
once, for a while, in an order that turns from round to round; figures are medians over the rounds,
ratios are medians of the ratios of single rounds (above 1: Sluice is faster). Before that, the
outputs of all are compared; "skipping padding" (encoders) at the tokens. `start` is how long Sluice takes until the model is ready to run, at first
and from the plan that it kept then.
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
import time

import numpy as np

from machine import commit, cpu_model, vectors
from models import input_flags, inputs_of, model_file

CASES = {  # model, batch, length of sequences
    "minilm-l6 b1 s128": ("minilm-l6", 1, 128),
    "minilm-l6 b8 s128": ("minilm-l6", 8, 128),
    "bert-base b1 s128": ("bert-base", 1, 128),
    "bert-base b8 s128": ("bert-base", 8, 128),
    "resnet50 b1": ("resnet50", 1, 0),
    "resnet50 b8": ("resnet50", 8, 0),
    "mobilenet-v2 b1": ("mobilenet-v2", 1, 0),
    "lstm b1 s32": ("lstm", 1, 32),
    "mlp b1": ("mlp", 1, 0),
    "mlp b32": ("mlp", 32, 0),
}


class Sluice:
    def __init__(self, program, model, inputs, given, name="sluice", *flags):
        self.program, self.model, self.given = program, model, given
        self.name, self.flags = name, flags
        self.folder = tempfile.TemporaryDirectory()
        self.inputs = input_flags(inputs, self.folder.name)

    def call(self, *arguments):
        return subprocess.run([self.program, *arguments, *self.inputs, *self.flags, "--threads",
                               str(self.given.threads)], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def outputs(self):
        out = pathlib.Path(self.folder.name) / "out"
        report = json.loads(self.call("run", self.model, "--output", str(out), "--no-plans", "--json"))
        return {o["name"]: np.load(o["file"]) for o in report["outputs"]}

    def starts(self, rounds=5):
        """Milliseconds until it is ready to run: without a plan, and from the plan that kept."""
        plans = pathlib.Path(self.folder.name) / "plans"
        load = lambda *how: json.loads(self.call("run", self.model, "--json", *how))
        cold = [load("--no-plans")["load_ms"] for _ in range(rounds)]
        load("--plans", str(plans))
        second = [load("--plans", str(plans)) for _ in range(rounds)]
        if not all(run["from_plan"] for run in second):
            raise RuntimeError("the second start was not from the plan")
        return {"cold_ms": round(statistics.median(cold), 1),
                "second_ms": round(statistics.median(run["load_ms"] for run in second), 1)}

    def p50(self):
        report = json.loads(self.call("bench", "model", self.model, "--seconds",
                                      str(self.given.seconds), "--no-peak", "--no-plans", "--json"))
        row = report["rows"][0]
        if "problem" in row:
            raise RuntimeError(row["problem"])
        return row["p50_seconds"]


class Peer:
    """Warmed up and timed as `sluice bench model` does it."""

    def p50(self):
        begin, warm = time.perf_counter(), 0
        while warm < 3 or time.perf_counter() - begin < 0.2 * self.given.seconds:
            self.run()
            warm += 1
        times, start = [], time.perf_counter()
        now = start
        while len(times) < 10 or now - start < self.given.seconds:
            self.run()
            then = time.perf_counter()
            times.append(then - now)
            now = then
        return statistics.median(times)


class OnnxRuntime(Peer):
    def __init__(self, program, model, inputs, given):
        import onnxruntime
        self.name, self.given, self.inputs = "onnxruntime", given, inputs
        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = given.threads, 1
        self.session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])

    def run(self):
        return self.session.run(None, self.inputs)

    def outputs(self):
        return dict(zip([o.name for o in self.session.get_outputs()], self.run()))


class OpenVino(Peer):
    def __init__(self, program, model, inputs, given):
        import openvino
        self.name, self.given, self.inputs = "openvino", given, inputs
        self.version = openvino.__version__.split("-")[0]
        read = openvino.Core().read_model(model)
        # Shapes that are known from the start are its best case.
        read.reshape({name: array.shape for name, array in inputs.items()})
        self.compiled = openvino.Core().compile_model(
            read, "CPU", {"INFERENCE_NUM_THREADS": given.threads, "PERFORMANCE_HINT": "LATENCY",
                          "INFERENCE_PRECISION_HINT": "f32"})
        self.request = self.compiled.create_infer_request()

    def run(self):
        return self.request.infer(self.inputs, share_inputs=True, share_outputs=True)

    def outputs(self):
        results = self.run()
        return {o.get_any_name(): np.array(results[o]) for o in self.compiled.outputs}


def agree(contestants, mask):
    """The largest difference of any output from the last's, by the output's own size."""
    tokens = lambda array: array[mask] if mask is not None and array.ndim > 2 else array
    reference = {n: tokens(array) for n, array in contestants[-1].outputs().items()}
    worst = {}
    for contestant in contestants[:-1]:
        difference = 0.0
        for name, array in contestant.outputs().items():
            array = tokens(array)
            scale = np.abs(reference[name]).max() or 1.0
            difference = max(difference, float(np.abs(array - reference[name]).max() / scale))
        worst[contestant.name] = difference
        if difference > 1e-3:
            sys.exit(f"{contestant.name} computes something else: {difference:.2g} off")
    return worst


def measure(case, given):
    model, batch, length = CASES[case]
    path = model_file(given.models, model)
    inputs = inputs_of(model, batch, length)
    mask = inputs["attention_mask"] != 0 if "attention_mask" in inputs else None
    contestants, missing = [Sluice(given.program, path, inputs, given)], {}
    if mask is not None and not mask.all():
        contestants.append(Sluice(given.program, path, inputs, given, "skipping padding",
                                  "--skip-padding"))
    own = len(contestants)
    for peer in (OpenVino, OnnxRuntime):
        try:
            contestants.append(peer(given.program, path, inputs, given))
        except ImportError as error:
            missing[peer.__name__] = str(error)
    off = agree(contestants, mask) if len(contestants) > own else {}
    times = {c.name: [] for c in contestants}
    for i in range(given.rounds):
        turn = i % len(contestants)
        for contestant in contestants[turn:] + contestants[:turn]:
            times[contestant.name].append(contestant.p50())
    ratios = lambda ours: {
        n: round(statistics.median(b / a for a, b in zip(times[ours], t)), 3)
        for n, t in times.items() if n not in ("sluice", "skipping padding")}
    row = {"case": case, "model": model, "batch": batch, "sequence": length or None,
           "p50_ms": {n: round(1e3 * statistics.median(t), 4) for n, t in times.items()},
           "ratio": ratios("sluice"),
           "start": contestants[0].starts(),
           "largest_difference": {n: float(f"{d:.2g}") for n, d in off.items()},
           "rounds_ms": {n: [round(1e3 * x, 4) for x in t] for n, t in times.items()}}
    if own > 1:
        row["padding"] = round(1 - float(mask.mean()), 3)
        row["ratio_skipping"] = ratios("skipping padding")
    if missing:
        row["missing"] = missing
    print(f"{case}: {row['p50_ms']} ms, ratio {row['ratio']}, {row.get('ratio_skipping')} without "
          f"padding, start {row['start']}", file=sys.stderr)
    return row, {c.name: c.version for c in contestants[own:]}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("program", help="build/sluice")
    options.add_argument("--models", type=pathlib.Path, required=True, help="folder of the models")
    options.add_argument("--only", nargs="*", default=[""], help="cases that begin so")
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--seconds", type=float, default=1.0, help="for each program in each round")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--out", type=pathlib.Path)
    given = options.parse_args()
    load, rows, peers = os.getloadavg()[0], [], {}
    for case in CASES:
        if case.startswith(tuple(given.only)):
            row, versions = measure(case, given)
            rows.append(row)
            peers.update(versions)
    result = {"suite": "engine", "what": "models on the CPU in fp32, latency of one run"
                                         + (", AVX2 alone" if vectors().startswith("AVX2") else ""),
              "date": datetime.date.today().isoformat(), "commit": commit(), "cpu": cpu_model(),
              "cores": len(os.sched_getaffinity(0)), "threads": given.threads, "peers": peers,
              "load_before": round(load, 2), "rounds": given.rounds, "seconds": given.seconds,
              "command": f"bench/engine_bench.py build/sluice --models DIR --rounds {given.rounds} "
                         f"--seconds {given.seconds} --threads {given.threads}"
                         + (f" --only {' '.join(given.only)}" if given.only != [""] else ""),
              "cases": rows}
    text = json.dumps(result, indent=2)
    if given.out:
        given.out.write_text(text + "\n")
    print(text)


main()
