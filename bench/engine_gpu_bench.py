#!/usr/bin/env python3
"""Models on a GPU in fp16 beside torch.compile, in turn, with the same weights and inputs.

    bench/engine_gpu_bench.py build/sluice --models /tmp/models --out bench/results/DATE-engine-h200.json

Needs the Python packages torch, onnx and numpy. Inputs and outputs lie on the device and the
device's own clock is read, for both. torch.compile runs with CUDA graphs (mode reduce-overhead),
pictures in channels-last order; batch norms are folded into the convolutions for both.

Encoders get padded sequences and a mask. "sluice" computes all places, as torch.compile does, and
"skipping padding" the tokens alone; outputs are compared at the tokens.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

import gpu_models
from models import input_flags, inputs_of, model_file

CASES = {  # model, batch, length of sequences
    "minilm-l6 b1 s128": ("minilm-l6", 1, 128),
    "minilm-l6 b32 s128": ("minilm-l6", 32, 128),
    "minilm-l6 b128 s256": ("minilm-l6", 128, 256),
    "bert-base b1 s128": ("bert-base", 1, 128),
    "bert-base b32 s128": ("bert-base", 32, 128),
    "bert-base b64 s384": ("bert-base", 64, 384),
    "resnet50 b1": ("resnet50", 1, 0),
    "resnet50 b32": ("resnet50", 32, 0),
    "resnet50 b128": ("resnet50", 128, 0),
}
HEADS = 12


class Weights:
    def __init__(self, path):
        self.by_name = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy())
                        for t in onnx.load(path).graph.initializer}
        self.matmuls = 0

    def __call__(self, name):
        w = self.by_name[name]
        return (w.half() if w.dtype == torch.float32 else w).cuda()

    def matmul(self):
        """The next of the matrices that the exporter's spelling leaves without a name."""
        name = "onnx::MatMul" + (f"_{self.matmuls}" if self.matmuls else "")
        self.matmuls += 1
        return self(name)


class Encoder(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.tables = [w(f"embeddings.{k}_embeddings.weight") for k in ("word", "token_type", "position")]
        self.first = (w("embeddings.LayerNorm.weight"), w("embeddings.LayerNorm.bias"))
        self.layers = []
        while f"encoder.layer.{len(self.layers)}.output.dense.bias" in w.by_name:
            at = f"encoder.layer.{len(self.layers)}."
            names = ["attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense", "intermediate.dense", "output.dense"]
            parts = {n: (w.matmul().t().contiguous(), w(at + n + ".bias")) for n in names}
            for n in ("attention.output.LayerNorm", "output.LayerNorm"):
                parts[n] = (w(at + n + ".weight"), w(at + n + ".bias"))
            qkv = [parts.pop(n) for n in names[:3]]
            parts["qkv"] = tuple(torch.cat([p[i] for p in qkv]) for i in (0, 1))
            self.layers.append(parts)
        self.pooler = (w("pooler.dense.weight"), w("pooler.dense.bias"))

    def forward(self, ids, mask, types):
        batch, length = ids.shape
        shut = (1 - mask[:, None, None, :].half()) * torch.finfo(torch.float16).min
        words, kinds, places = self.tables
        x = F.embedding(ids, words) + F.embedding(types, kinds) + places[:length]
        x = F.layer_norm(x, x.shape[-1:], *self.first, 1e-12)
        width = x.shape[-1]
        for layer in self.layers:
            qkv = F.linear(x, *layer["qkv"]).view(batch, length, 3, HEADS, width // HEADS)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=shut)
            y = F.linear(y.transpose(1, 2).reshape(batch, length, width),
                         *layer["attention.output.dense"])
            x = F.layer_norm(y + x, (width,), *layer["attention.output.LayerNorm"], 1e-12)
            y = F.linear(F.gelu(F.linear(x, *layer["intermediate.dense"])), *layer["output.dense"])
            x = F.layer_norm(y + x, (width,), *layer["output.LayerNorm"], 1e-12)
        return x, torch.tanh(F.linear(x[:, 0], *self.pooler))


class ResNet(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = {n: w(n) for n in w.by_name if n.endswith((".weight", ".bias"))}
        for name, value in self.w.items():
            if value.dim() == 4:
                self.w[name] = value.to(memory_format=torch.channels_last)

    def conv(self, x, name, stride=1):
        weight = self.w[name + ".weight"]
        return F.conv2d(x, weight, self.w[name + ".bias"], stride, weight.shape[-1] // 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x, "conv1", 2)), 3, 2, 1)
        for stage, blocks in enumerate((3, 4, 6, 3), 1):
            for block in range(blocks):
                at, stride = f"layer{stage}.{block}.", 2 if stage > 1 and block == 0 else 1
                y = F.relu(self.conv(x, at + "conv1"))
                y = self.conv(F.relu(self.conv(y, at + "conv2", stride)), at + "conv3")
                x = F.relu(y + (self.conv(x, at + "downsample", stride) if block == 0 else x))
        return (F.linear(x.mean((2, 3)), self.w["fc.weight"], self.w["fc.bias"]),)


class Torch:
    def __init__(self, model, path, inputs):
        torch._dynamo.reset()
        weights = Weights(path)
        self.net = ResNet(weights) if model == "resnet50" else Encoder(weights)
        self.inputs = [torch.from_numpy(a).cuda() for a in inputs.values()]
        if model == "resnet50":
            self.inputs = [self.inputs[0].half().to(memory_format=torch.channels_last)]
        self.compiled = torch.compile(self.net, mode="reduce-overhead", dynamic=False)

    @torch.no_grad()
    def outputs(self):
        return [o.float().cpu().numpy() for o in self.compiled(*self.inputs)]

    @torch.no_grad()
    def p50(self, seconds):
        for _ in range(5):
            self.compiled(*self.inputs)
        torch.cuda.synchronize()
        times = []
        while len(times) < 20 or (sum(times) < 1e3 * seconds and len(times) < 2000):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            self.compiled(*self.inputs)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times) / 1e3


class Sluice:
    def __init__(self, program, path, inputs, folder, *flags):
        self.program, self.path, self.folder = program, path, folder
        self.plans, self.second_starts = ["--plans", str(folder / "plans"), *flags], []
        self.inputs = input_flags(inputs, folder)

    def call(self, *arguments):
        done = subprocess.run([self.program, *arguments, *self.inputs], text=True,
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)

    def outputs(self):
        report = self.call("run", self.path, "--device", "cuda", "--precision", "fp16", "--output",
                           str(self.folder / "out"), "--json", *self.plans)
        self.cold_ms = report["load_ms"]
        return [np.load(o["file"]) for o in report["outputs"]]

    def starts(self):
        """Milliseconds until it is ready once CUDA is: at first, and from the plan it kept then."""
        median = lambda key: round(statistics.median(row[key] for row in self.second_starts), 1)
        return {"cold_ms": round(self.cold_ms, 1),
                "second_ms": median("load_ms") if self.second_starts else None,
                "cuda_ms": median("device_ms") if self.second_starts else None}

    def p50(self, seconds):
        row = self.call("bench", "model", self.path, "--backend", "cuda", "--precision", "fp16",
                        "--resident", "--no-peak", "--seconds", str(seconds), "--json",
                        *self.plans)["rows"][0]
        if "problem" in row:
            raise RuntimeError(row["problem"])
        self.row = row
        if row["from_plan"]:
            self.second_starts.append(row)
        return row["p50_seconds"]


def largest_difference(case, ours, peer, mask):
    """Of all outputs; of those that have places, at the tokens."""
    def tokens(array):
        return array[mask] if mask is not None and array.shape[:2] == mask.shape else array
    off = max(float(np.abs(tokens(a) - tokens(b)).max() / np.abs(tokens(b)).max())
              for a, b in zip(ours.outputs(), peer.outputs()))
    if not off < 0.05:
        sys.exit(f"{case}: the outputs differ by {off:.2g}")
    return off


def measure(case, given):
    model, batch, length = CASES[case]
    path = model_file(given.models, model)
    inputs = inputs_of(model, batch, length)
    mask = inputs["attention_mask"] != 0 if "attention_mask" in inputs else None
    with tempfile.TemporaryDirectory() as folder:
        make = lambda *flags: Sluice(given.program, path, inputs, pathlib.Path(folder), *flags)
        ours = {"sluice": make()}
        if mask is not None and not mask.all():
            ours["skipping padding"] = make("--skip-padding")
        peer = Torch(model, path, inputs)
        off = max(largest_difference(case, one, peer, mask) for one in ours.values())
        rounds = [[one.p50(given.seconds) for one in (*ours.values(), peer)]
                  for _ in range(given.rounds)]
    names = [*ours, "torch.compile"]
    best = len(ours) - 1
    row = {"case": case, "model": model, "batch": batch, "sequence": length or None,
           "p50_ms": {name: round(1e3 * statistics.median(r[i] for r in rounds), 4)
                      for i, name in enumerate(names)},
           "ratio": round(statistics.median(r[-1] / r[0] for r in rounds), 3),
           "per_second": round(batch / statistics.median(r[best] for r in rounds)),
           "largest_difference": float(f"{off:.2g}"), "start": ours["sluice"].starts(),
           "rounds_ms": [[round(1e3 * p50, 4) for p50 in r] for r in rounds]}
    if best > 0:
        row["padding"] = round(1 - float(mask.mean()), 3)
        row["ratio_skipping"] = round(statistics.median(r[-1] / r[best] for r in rounds), 3)
    print(f"{case}: {row['p50_ms']} ms, ratio {row['ratio']}, {row.get('ratio_skipping')} without "
          f"padding, off {off:.2g}, start {row['start']}", file=sys.stderr, flush=True)
    return row


def main():
    given = gpu_models.arguments(__doc__)
    result = gpu_models.result(given, "engine_gpu_bench.py",
                               "models on a GPU in fp16, inputs and outputs on the device",
                               {"torch": torch.__version__})
    gpu_models.measure_cases(result, CASES, measure, given)
    print(json.dumps(result, indent=2))


main()
