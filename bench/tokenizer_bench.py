#!/usr/bin/env python3
"""A tokenizer beside Hugging Face `tokenizers`, in alternating rounds on the same texts.

    bench/tokenizer_bench.py build/sluice --data ../shared/data --out bench/results/DATE-tokenizer.json
    bench/tokenizer_bench.py build/sluice --data ../shared/data --model tokenizer.json

Without --model: BERT of the data folder, and a byte-level BPE and a unigram trained on it. Ids are
compared before anything is measured. One thread is measured by its CPU time, all of them by the
clock; figures are medians over the rounds, ratios medians of those of single rounds.
"""
import argparse, datetime, json, os, pathlib, statistics, subprocess, sys, tempfile, time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import tokenizer_families
from machine import commit, cpu_model
from tokenizers import Tokenizer, __version__


def ours(program, model, texts):
    done = subprocess.run([program, "bench", "tokenizer", "--model", model, "--in", texts, "--quick", "--json"],
                          check=True, text=True, stdout=subprocess.PIPE)
    return {row["name"]: row["value"] for row in json.loads(done.stdout)["devices"][0]["results"]}


def theirs(model, texts, size):
    """Bytes a second of one thread (CPU time) and of all (clock)."""
    code = ("import sys, time, json; from tokenizers import Tokenizer\n"
            "t = Tokenizer.from_file(sys.argv[1]); t.no_truncation(); t.no_padding()\n"
            "texts = open(sys.argv[2], encoding='utf-8').read().split('\\n')[:-1]\n"
            "t.encode_batch_fast(texts[:200])\n"
            "cpu, clock = time.process_time(), time.perf_counter(); t.encode_batch_fast(texts)\n"
            "print(json.dumps([time.process_time() - cpu, time.perf_counter() - clock]))")
    def seconds(parallel):
        done = subprocess.run([sys.executable, "-c", code, model, texts], check=True, text=True, stdout=subprocess.PIPE,
                              env=os.environ | {"TOKENIZERS_PARALLELISM": parallel})
        return json.loads(done.stdout)
    return {"tokenize_1": size / seconds("false")[0], "tokenize_all": size / seconds("true")[1]}


def require_equal_ids(program, model, texts):
    reference = Tokenizer.from_file(model)
    reference.no_truncation()
    reference.no_padding()
    done = subprocess.run([program, "tokenize", "--model", model, "--in", texts], check=True, stdout=subprocess.PIPE)
    lines = open(texts, encoding="utf-8").read().split("\n")[:-1]
    have = done.stdout.decode().split("\n")[:-1]
    want = [" ".join(map(str, e.ids)) for e in reference.encode_batch_fast(lines)]
    if have != want: raise SystemExit(f"{model}: ids differ")
    return sum(line.count(" ") + 1 for line in have)


def case_of(name, figure, rounds):
    mine, peer = ([one[i][figure] for one in rounds] for i in (0, 1))
    return {"tokenizer": name, "name": figure, "unit": "B/s", "value": statistics.median(mine),
            "peer": f"tokenizers {__version__}", "peer_value": statistics.median(peer),
            "ratio": round(statistics.median(a / b for a, b in zip(mine, peer)), 1)}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("sluice")
    args.add_argument("--data", required=True)
    args.add_argument("--model")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--out")
    args = args.parse_args()
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        articles = tokenizer_families.documents(args.data)["senate_articles.csv.xz"]
        texts = pathlib.Path(folder) / "texts.txt"
        texts.write_text("".join(" ".join(a.split()) + "\n" for a in articles), encoding="utf-8")
        size = texts.stat().st_size - len(articles)
        models = {pathlib.Path(args.model).stem: args.model} if args.model else {
            "bert-uncased": str(pathlib.Path(args.data) / "tokenizer" / "tokenizer.json"),
            **{k: str(v) for k, v in tokenizer_families.write(args.data, folder).items()
               if k in ("roberta", "modernbert", "xlm-roberta")}}
        for name, model in models.items():
            ids = require_equal_ids(args.sluice, model, str(texts))
            print(f"{name}: {ids} ids equal", file=sys.stderr)
            rounds = [(ours(args.sluice, model, str(texts)), theirs(model, str(texts), size)) for _ in range(args.rounds)]
            for figure in rounds[0][0]:
                cases.append(case_of(name, figure, rounds))
                c = cases[-1]
                print(f"{name:14} {figure:13} {c['value'] / 1e6:7.1f} MB/s  beside {c['peer_value'] / 1e6:6.1f}  {c['ratio']:6.1f}x")
    report = {"suite": "tokenizer", "commit": commit(), "cpu": cpu_model(), "cores": os.cpu_count(),
              "date": datetime.date.today().isoformat(), "text_bytes": size, "rounds": args.rounds, "results": cases}
    if args.out: pathlib.Path(args.out).write_text(json.dumps(report, indent=2) + "\n")


main()
