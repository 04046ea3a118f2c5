#!/usr/bin/env python3
"""Compares quantized models with fp16 on a GPU, alternately.

    bench/engine_quantized_bench.py build/sluice --models /tmp/models --out bench/results/DATE-engine-quantized-h200.json

Needs the Python packages onnx and numpy. `sluice quantize` makes the models, with ranges from random
inputs: their speed is that of any other. Inputs and outputs lie on the device, whose own clock is read.
"""
import json
import statistics
import subprocess
import sys

import gpu_models
from models import model_file

CASES = {  # model, batch, length of sequences
    "minilm-l6 b32 s128": ("minilm-l6", 32, 128),
    "bert-base b32 s128": ("bert-base", 32, 128),
    "resnet50 b1": ("resnet50", 1, 0),
    "resnet50 b128": ("resnet50", 128, 0),
}
KINDS = ("int8", "fp8")


def quantized_model(given, model, kind, length):
    """Made where it is not there yet."""
    path = given.models / f"{model}-{kind}.onnx"
    if not path.exists():
        shape = ["--shape", "batch=2"] + (["--shape", "sequence=64"] if length else [])
        subprocess.run([given.program, "quantize", model_file(given.models, model), "-o", str(path),
                        "--precision", kind, "--random", "2", *shape, "--seconds", "0",
                        "--max-loss", "1"], check=True, stdout=subprocess.DEVNULL)
    return str(path)


def p50(given, path, batch, length):
    shape = ["--shape", f"sequence={length}"] if length else []
    done = subprocess.run([given.program, "bench", "model", path, "--backend", "cuda", "--precision",
                           "fp16", "--batch", str(batch), *shape, "--resident", "--no-peak", "--seconds",
                           str(given.seconds), "--plans", str(given.models / "plans"), "--json"],
                          text=True, stdout=subprocess.PIPE, check=True)
    row = json.loads(done.stdout)["rows"][0]
    if "problem" in row:
        sys.exit(f"{path}: {row['problem']}")
    return row["p50_seconds"]


def measure(case, given):
    model, batch, length = CASES[case]
    paths = [model_file(given.models, model)] + [quantized_model(given, model, k, length) for k in KINDS]
    rounds = [[p50(given, path, batch, length) for path in paths] for _ in range(given.rounds)]
    names = ("sluice", *KINDS)
    row = {"case": case, "model": model, "batch": batch, "sequence": length or None,
           "p50_ms": {n: round(1e3 * statistics.median(r[i] for r in rounds), 4)
                      for i, n in enumerate(names)},
           "ratio": {n: round(statistics.median(r[i] / r[0] for r in rounds), 3)
                     for i, n in enumerate(names) if i > 0},
           "rounds_ms": [[round(1e3 * t, 4) for t in r] for r in rounds]}
    print(f"{case}: {row['p50_ms']} ms, ratio {row['ratio']}", file=sys.stderr, flush=True)
    return row


def main():
    given = gpu_models.arguments(__doc__)
    result = gpu_models.result(
        given, "engine_quantized_bench.py",
        "models on a GPU in fp16 and quantized, inputs and outputs on the device",
        {"int8": "of u8 and i8", "fp8": "of e4m3"})
    gpu_models.measure_cases(result, CASES, measure, given)


main()
