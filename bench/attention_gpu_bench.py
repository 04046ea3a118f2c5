#!/usr/bin/env python3
"""Varlen attention on a GPU in fp16, beside PyTorch's flash attention and cuDNN's, in one run.

    bench/attention_gpu_bench.py build/src/kernels/kernels_gpu_test --out bench/results/DATE-attention-h200.json

About 163,840 tokens and 12 heads, of texts of one length, and of articles (lognormal lengths, mean
315). PyTorch's varlen_attn gets packed tokens as Sluice does; cuDNN's attention takes texts of one
length. All operands lie on the device. Needs torch and numpy.
"""
import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys

import numpy as np
import torch

from encoder_gpu_bench import ARTICLES, HEADS, article_lengths, attention_of
from gpu_models import first_gpu
from machine import commit

TOKENS = 163840
LENGTHS = (64, 128, 320, 512)
LINE = re.compile(r"head size (\d+), (.*), (.*): ([\d.]+) us, ([\d.]+) TFLOP/s")


def tflops(lengths, size, seconds):
    return float((lengths.astype(np.float64) ** 2).sum()) * 4 * HEADS * size / seconds * 1e-12


def seconds_of(call):
    times = []
    for _ in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(4):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 4000)
    return statistics.median(times[1:])


def varlen(lengths, size):
    attention, _ = attention_of()
    cu = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)).cuda()
    qkv = torch.rand(int(lengths.sum()), 3, HEADS, size, device="cuda", dtype=torch.half) * 4 - 2
    q, k, v = qkv.unbind(1)
    return tflops(lengths, size, seconds_of(lambda: attention(q, k, v, cu, int(lengths.max()))))


def cudnn(length, size):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    count = TOKENS // length
    qkv = torch.rand(count, length, 3, HEADS, size, device="cuda", dtype=torch.half) * 4 - 2
    q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        seconds = seconds_of(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v))
    return tflops(np.full(count, length), size, seconds)


def ours(program):
    done = subprocess.run([program, "--gtest_also_run_disabled_tests",
                           "--gtest_filter=FlashAttentionSm90Bench.*"],
                          text=True, stdout=subprocess.PIPE, check=True)
    rows = {}
    for size, what, kernel, _, speed in LINE.findall(done.stdout):
        rows.setdefault((int(size), what), {})[kernel] = float(speed)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    device, driver = first_gpu()
    rows = ours(args.program)
    for (size, what), row in rows.items():
        lengths = (article_lengths(np.random.default_rng(1)) if what == "articles"
                   else np.full(TOKENS // int(what.split()[1]), int(what.split()[1])))
        row["varlen_attn"] = round(varlen(lengths, size), 1)
        if what != "articles":
            row["cuDNN"] = round(cudnn(int(what.split()[1]), size), 1)
        print(f"head size {size}, {what}: " + ", ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    if args.out:
        args.out.write_text(json.dumps({
            "suite": "attention", "what": "varlen attention, forward, TFLOP/s", "tokens": TOKENS, "heads": HEADS,
            "articles": ARTICLES, "date": datetime.date.today().isoformat(), "commit": commit(),
            "command": " ".join(sys.argv), "device": device, "driver": driver, "peer": f"torch {torch.__version__}",
            "rows": [{"head_size": size, "lengths": what, "tflops": row}
                     for (size, what), row in rows.items()]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
