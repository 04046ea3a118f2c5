#!/usr/bin/env python3
"""Encoders on a GPU on texts of different lengths, in fp16, beside torch.compile, in turn.

    bench/encoder_gpu_bench.py build/src/engine/engine_encoder_bench --out bench/results/DATE-encoder-h200.json

Models are MiniLM-L6 and BERT-base with random weights, the texts 522 articles of lognormal lengths
(mean 315 tokens, at most 512), pooled by their mean and normalized. PyTorch gets them packed too:
its layers are compiled for exactly these tokens, attention is its varlen flash attention, and
everything lies on the device already; Sluice gets token ids on the host and returns vectors there.
Needs torch, transformers and numpy.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

from machine import commit

SIZES = {"minilm-l6": (6, 384, 1536), "bert-base": (12, 768, 3072)}
HEADS, ARTICLES, LONGEST, MEAN = 12, 522, 512, 315


def article_lengths(random):
    lengths = np.clip(random.lognormal(np.log(MEAN) - 0.18, 0.6, ARTICLES), 16, LONGEST)
    return np.clip(np.round(lengths * (MEAN * ARTICLES / lengths.sum())), 16, LONGEST).astype(np.int32)


def save_model(folder, layers, width, inner):
    from transformers import BertConfig, BertModel
    config = BertConfig(num_hidden_layers=layers, hidden_size=width, intermediate_size=inner,
                        num_attention_heads=HEADS)
    model = BertModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(folder)
    return model


class PackedBert:
    """The model on packed tokens."""

    def __init__(self, model, attention):
        self.attention = attention
        half = lambda t: t.detach().half().cuda()
        e = model.embeddings
        self.tables = [half(t.weight) for t in (e.word_embeddings, e.position_embeddings, e.token_type_embeddings)]
        self.norm = [half(e.LayerNorm.weight), half(e.LayerNorm.bias)]
        self.layers = []
        for layer in model.encoder.layer:
            a, o = layer.attention.self, layer.attention.output
            self.layers.append([
                half(torch.cat([a.query.weight, a.key.weight, a.value.weight])),
                half(torch.cat([a.query.bias, a.key.bias, a.value.bias])),
                half(o.dense.weight), half(o.dense.bias), half(o.LayerNorm.weight), half(o.LayerNorm.bias),
                half(layer.intermediate.dense.weight), half(layer.intermediate.dense.bias),
                half(layer.output.dense.weight), half(layer.output.dense.bias),
                half(layer.output.LayerNorm.weight), half(layer.output.LayerNorm.bias)])
        self.width = self.tables[0].shape[1]

    def __call__(self, ids, positions, sequence, cu, longest, count):
        norm = lambda x, w, b: F.layer_norm(x, (self.width,), w, b, 1e-12)
        x = self.tables[0][ids] + self.tables[1][positions] + self.tables[2][0]
        x = norm(x, *self.norm)
        for qkv, qkv_b, out, out_b, n1, n1_b, up, up_b, down, down_b, n2, n2_b in self.layers:
            q, k, v = F.linear(x, qkv, qkv_b).view(-1, 3, HEADS, self.width // HEADS).unbind(1)
            a = self.attention(q, k, v, cu, longest).reshape(-1, self.width)
            x = norm(x + F.linear(a, out, out_b), n1, n1_b)
            x = norm(x + F.linear(F.gelu(F.linear(x, up, up_b)), down, down_b), n2, n2_b)
        sums = torch.zeros(count, self.width, device=x.device).index_add_(0, sequence, x.float())
        return F.normalize(sums / (cu[1:] - cu[:-1]).unsqueeze(1))


def attention_of():
    """PyTorch's attention for packed sequences."""
    try:
        from torch.nn.attention.varlen import varlen_attn
        return lambda q, k, v, cu, longest: varlen_attn(q, k, v, cu, cu, longest, longest), "varlen_attn"
    except ImportError:
        flash = torch.ops.aten._flash_attention_forward
        return (lambda q, k, v, cu, longest: flash(q, k, v, cu, cu, longest, longest, 0.0, False, False)[0],
                "aten._flash_attention_forward")


class Peer:
    def __init__(self, model, ids, lengths):
        attention, self.kind = attention_of()
        cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        cuda = lambda a, t: torch.from_numpy(np.ascontiguousarray(a)).to(t).cuda()
        self.inputs = (cuda(ids, torch.int64),
                       cuda(np.concatenate([np.arange(n) for n in lengths]), torch.int64),
                       cuda(np.repeat(np.arange(len(lengths)), lengths), torch.int64),
                       cuda(cu, torch.int32), int(lengths.max()), len(lengths))
        plain = PackedBert(model, attention)
        self.run = torch.compile(plain.__call__)
        with torch.no_grad():
            for _ in range(3):
                self.vectors = self.run(*self.inputs)
        torch.cuda.synchronize()

    def seconds(self, times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.no_grad():
            begin.record()
            for _ in range(times):
                self.run(*self.inputs)
            end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000 / times


class Sluice:
    def __init__(self, program, folder, tokens, precision):
        self.process = subprocess.Popen([program, folder, "cuda", tokens, precision], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.ready = self.process.stdout.readline().strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def profile(self):
        lines, line = [], self.ask("profile")
        while line:
            us, kernel, node = line.split("\t")
            lines.append((float(us), kernel, node))
            line = self.process.stdout.readline().strip()
        return lines


def work_of(name, lengths):
    """Operations of the kernels that are limited by them, and bytes of those that memory limits."""
    layers, width, inner = SIZES[name]
    tokens, scores = int(lengths.sum()), float((lengths.astype(np.float64) ** 2).sum())
    return {"wgmma GEMM + bias": {"flops": 2.0 * tokens * width * (4 * width + inner) * layers},
            "wgmma GEMM + bias + gelu": {"flops": 2.0 * tokens * width * inner * layers},
            "flash attention, wgmma": {"flops": 4 * scores * width * layers},
            "residual + layer norm": {"bytes": 3 * 2.0 * tokens * width * 2 * layers}}


def by_kernel(lines):
    all_us = {}
    for us, kernel, _ in lines:
        all_us[kernel] = all_us.get(kernel, 0) + us
    return dict(sorted(all_us.items(), key=lambda item: -item[1]))


def bench(name, args, folder, random):
    lengths = article_lengths(random)
    ids = random.integers(999, 30000, lengths.sum()).astype(np.int32)
    model = save_model(folder, *SIZES[name])
    tokens = folder / "tokens"
    np.concatenate([[len(lengths)], [0], np.cumsum(lengths), ids]).astype(np.int32).tofile(tokens)
    ours = Sluice(args.program, folder, tokens, args.precision)
    print(name, "tokens", lengths.sum(), ours.ready, flush=True)
    ours.ask(f"vectors {folder}/vectors")
    vectors = np.fromfile(folder / "vectors", np.float32).reshape(len(lengths), -1)
    result = {"tokens": int(lengths.sum()), "ready": ours.ready, "articles_s": [], "peer_articles_s": []}
    peer = None if args.no_peer else Peer(model, ids, lengths)
    if peer:
        want = peer.vectors.cpu().numpy()
        result["peer"] = f"torch {torch.__version__} compile, {peer.kind}"
        result["cosine_with_peer"] = float((vectors * want).sum(1).min())
    ours.ask("calls 4")
    for _ in range(args.rounds):
        result["articles_s"].append(ARTICLES * 8 / float(ours.ask("calls 8")))
        if peer:
            result["peer_articles_s"].append(ARTICLES / peer.seconds(8))
    for length in (16, 128, 512):
        result[f"one_text_{length}_us"] = ours.ask(f"first {length} 300")
    result["new_mixes_us"] = ours.ask("mixes 200")
    result["profile_us"] = by_kernel(ours.profile())
    result["work"] = work_of(name, lengths)
    median = statistics.median(result["articles_s"])
    line = f"{name}: {median:.0f} articles/s"
    if peer:
        other = statistics.median(result["peer_articles_s"])
        line += f", {result['peer']}: {other:.0f}, {median / other:.3f}x; cosine {result['cosine_with_peer']:.5f}"
    print(line, "\n ", json.dumps({k: v for k, v in result.items() if "us" in k}, indent=1), flush=True)
    ours.process.stdin.close()
    ours.process.wait()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--models", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-peer", action="store_true")
    args = parser.parse_args()
    random = np.random.default_rng()
    results = {}
    for name in args.models:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = bench(name, args, pathlib.Path(folder), random)
    if args.out:
        args.out.write_text(json.dumps({
            "suite": "encoder", "what": "articles to vectors on a GPU", "articles": ARTICLES, "mean_tokens": MEAN,
            "date": datetime.date.today().isoformat(), "commit": commit(), "command": " ".join(sys.argv),
            "device": torch.cuda.get_device_name(), "precision": args.precision, "models": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
