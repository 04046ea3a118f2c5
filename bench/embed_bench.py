#!/usr/bin/env python3
"""Articles to vectors on the CPU beside ONNX Runtime and OpenVINO, in turn, with the same weights.

    bench/embed_bench.py build --models /tmp/models --tokenizer DIR --data ../shared/data \\
        --out bench/results/DATE-embed-2-cores.json

BUILD holds sluice and src/engine/engine_encoder_bench. MiniLM-L6 with random weights is made by
tools/make_model.py where --models lacks it; --tokenizer is a folder with tokenizer.json. Needs the
Python packages onnx, numpy, tokenizers, onnxruntime and openvino. "tokens": ids in, vectors out;
"text": texts in, where Sluice starts a process for each round and a peer's texts are encoded by HF
tokenizers on all cores. Peers run the articles sorted by length, in each of --batches, and the
fastest counts. Figures are medians over the rounds, ratios medians of those of single rounds.
"""
import argparse, csv, datetime, io, json, lzma, os, pathlib, shutil, statistics, subprocess, sys, tempfile, time

import numpy as np
from tokenizers import Tokenizer

from machine import commit, cpu_model
from models import model_file

MAX_LENGTH = 512


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def articles(data, count):
    csv.field_size_limit(1 << 30)
    with lzma.open(data / "news" / "senate_articles.csv.xz", "rt", encoding="utf8") as f:
        return [" ".join(row["text"].split()) for _, row in zip(range(count), csv.DictReader(f))]


class Sluice:
    name = "sluice"

    def __init__(self, given, model, ids, texts, folder):
        self.folder, self.given = folder, given
        lengths = np.cumsum([0] + [len(i) for i in ids])
        file = folder / "tokens"
        np.concatenate([[len(ids)], lengths, np.concatenate(ids)]).astype(np.int32).tofile(file)
        self.running = subprocess.Popen([given.build / "src/engine/engine_encoder_bench", model, str(given.threads), file],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.running.stdout.readline()
        (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf8")
        shutil.copy(model, folder / "model.onnx")
        shutil.copy(given.tokenizer / "tokenizer.json", folder)

    def ask(self, line):
        self.running.stdin.write(line + "\n")
        self.running.stdin.flush()
        return self.running.stdout.readline()

    def vectors(self):
        self.ask(f"vectors {self.folder / 'vectors'}")
        return np.fromfile(self.folder / "vectors", np.float32).reshape(-1, 384)

    def tokens(self):
        return float(self.ask("run").split()[0])

    def text(self):
        start = time.perf_counter()
        subprocess.run([self.given.build / "sluice", "embed", "--model", self.folder, "--in", self.folder / "texts.txt",
                        "--out", self.folder / "out.npy", "--max-length", str(MAX_LENGTH), "--threads", str(self.given.threads)],
                       check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


class Peer:
    def __init__(self, given, model, ids, texts, tokenizer, batch):
        self.given, self.texts, self.tokenizer, self.count = given, texts, tokenizer, len(ids)
        self.name = f"{self.engine}, batches of {batch}"
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        self.batches = [order[i:i + batch] for i in range(0, len(order), batch)]
        self.open(model)
        self.ids = ids

    def run(self, ids):
        made = np.empty((self.count, 384), np.float32)
        for batch in self.batches:
            longest = max(len(ids[i]) for i in batch)
            given, mask = np.zeros((2, len(batch), longest), np.int64)
            for row, i in enumerate(batch):
                given[row, :len(ids[i])], mask[row, :len(ids[i])] = ids[i], 1
            hidden = self.hidden({"input_ids": given, "attention_mask": mask, "token_type_ids": np.zeros_like(given)})
            made[batch] = (hidden * mask[..., None]).sum(1) / mask.sum(1)[:, None]
        return unit(made)

    def vectors(self):
        return self.run(self.ids)

    def tokens(self):
        start = time.perf_counter()
        self.run(self.ids)
        return time.perf_counter() - start

    def text(self):
        start = time.perf_counter()
        self.run([e.ids for e in self.tokenizer.encode_batch_fast(self.texts)])
        return time.perf_counter() - start


class OnnxRuntime(Peer):
    engine = "onnxruntime"

    def open(self, model):
        import onnxruntime
        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.given.threads, 1
        self.session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        self.wanted = [self.session.get_outputs()[0].name]

    def hidden(self, inputs):
        return self.session.run(self.wanted, inputs)[0]


class OpenVino(Peer):
    engine = "openvino"

    def open(self, model):
        import openvino
        self.version = openvino.__version__.split("-")[0]
        compiled = openvino.Core().compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": self.given.threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
        self.request = compiled.create_infer_request()

    def hidden(self, inputs):
        return np.array(self.request.infer(inputs, share_inputs=True)[0])


def row_of(what, times):
    mine = times["sluice"]
    best = min((n for n in times if n != "sluice"), key=lambda n: statistics.median(times[n]))
    return {"what": what, "articles_per_second": {n: round(given.count / statistics.median(t), 2) for n, t in times.items()},
            "best_peer": best, "ratio": round(statistics.median(p / m for p, m in zip(times[best], mine)), 3),
            "rounds_s": {n: [round(x, 3) for x in t] for n, t in times.items()}}


options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("build", type=pathlib.Path)
options.add_argument("--models", type=pathlib.Path, required=True)
options.add_argument("--tokenizer", type=pathlib.Path, required=True)
options.add_argument("--data", type=pathlib.Path, required=True)
options.add_argument("--count", type=int, default=128, help="articles")
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--threads", type=int, default=2)
options.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32])
options.add_argument("--out", type=pathlib.Path)
given = options.parse_args()
load = os.getloadavg()[0]
model = model_file(given.models, "minilm-l6")
texts = articles(given.data, given.count)
tokenizer = Tokenizer.from_file(str(given.tokenizer / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.enable_truncation(MAX_LENGTH)
ids = [e.ids for e in tokenizer.encode_batch(texts)]
with tempfile.TemporaryDirectory() as folder:
    all = [Sluice(given, model, ids, texts, pathlib.Path(folder)),
           *(peer(given, model, ids, texts, tokenizer, batch) for peer in (OnnxRuntime, OpenVino) for batch in given.batches)]
    want = all[0].vectors()
    cosine = {one.name: float((unit(want) * one.vectors()).sum(-1).min()) for one in all[1:]}
    if min(cosine.values()) < 0.99999: sys.exit(f"the vectors differ: {cosine}")
    rows = []
    for what in ("tokens", "text"):
        times = {one.name: [] for one in all}
        for i in range(given.rounds):
            turn = i % len(all)
            for one in all[turn:] + all[:turn]: times[one.name].append(getattr(one, what)())
        rows.append(row_of(what, times))
        print(rows[-1]["what"], rows[-1]["articles_per_second"], rows[-1]["ratio"], file=sys.stderr)
result = {"suite": "embed", "what": "articles to vectors on the CPU, MiniLM-L6, fp32", "date": datetime.date.today().isoformat(),
          "commit": commit(), "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "threads": given.threads,
          "articles": given.count, "mean_tokens": round(float(np.mean([len(i) for i in ids])), 1),
          "peers": {one.engine: one.version for one in all[1:]}, "load_before": round(load, 2), "rounds": given.rounds,
          "smallest_cosine": cosine, "command": "bench/embed_bench.py build --models DIR --tokenizer DIR --data DIR", "cases": rows}
text = json.dumps(result, indent=2)
if given.out: given.out.write_text(text + "\n")
print(text)
