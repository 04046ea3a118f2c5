"""sluice classify, rerank and tag beside a reference encoder in double precision.

Usage: text_tasks_test.py SLUICE"""
import json, pathlib, subprocess, sys, tempfile, unittest

try:
    import numpy as np
    from tokenizers import BertWordPieceTokenizer
except ImportError as e:
    print(f"skipped: {e.name} is not installed")
    sys.exit(77)
import encoder_reference as reference

SLUICE = sys.argv.pop(1)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *LETTERS, *("##" + c for c in LETTERS), "gpu"]
TEXTS = ["gpus are shared", "a", "the quick brown fox, and so on.", "zebra"]


def softmax(x):
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def sluice(self, *arguments, texts, code=0):
        done = subprocess.run([SLUICE, *map(str, arguments), "--in", "-", "--threads", "2"],
                              input=("\n".join(texts) + "\n").encode(), capture_output=True)
        self.said = done.stderr.decode()
        self.assertEqual(done.returncode, code, self.said)
        return list(map(json.loads, done.stdout.decode().splitlines()))

    def model(self, *labels, task="Sequence", **config):
        return reference.random_bert(self.folder / task, VOCABULARY, task=task, labels=labels, **config)

    def encoded(self, model, *texts):
        return BertWordPieceTokenizer(str(model / "vocab.txt"), lowercase=True).encode(*texts)

    def logits(self, model, *texts):
        encoded = self.encoded(model, *texts)
        return reference.Bert(model).logits(encoded.ids, encoded.type_ids)


class Classify(Case):
    def test_probabilities_of_all_labels_equal_the_reference(self):
        model = self.model("sports", "markets", "science")
        for row, text in zip(self.sluice("classify", "--model", model, "--all", texts=TEXTS), TEXTS):
            want = softmax(self.logits(model, text))
            got = {one["label"]: one["score"] for one in row["labels"]}
            np.testing.assert_allclose([got["sports"], got["markets"], got["science"]], want, atol=1e-5)
            self.assertEqual([one["score"] for one in row["labels"]], sorted(got.values(), reverse=True))

    def test_the_best_label_is_said_alone(self):
        model = self.model("sports", "markets", "science")
        for row, text in zip(self.sluice("classify", "--model", model, texts=TEXTS), TEXTS):
            shares = softmax(self.logits(model, text))
            self.assertEqual(row["label"], ["sports", "markets", "science"][int(shares.argmax())])
            self.assertAlmostEqual(row["score"], float(shares.max()), places=5)

    def test_labels_that_do_not_exclude_each_other_and_numbers(self):
        model = self.model("toxic", "spam", problem_type="multi_label_classification")
        got = {one["label"]: one["score"] for one in self.sluice("classify", "--model", model, "--all", texts=TEXTS[:1])[0]["labels"]}
        want = 1 / (1 + np.exp(-self.logits(model, TEXTS[0])))
        np.testing.assert_allclose([got["toxic"], got["spam"]], want, atol=1e-5)
        model = self.model("quality")
        self.assertAlmostEqual(self.sluice("classify", "--model", model, texts=TEXTS[:1])[0]["score"],
                               float(self.logits(model, TEXTS[0])[0]), places=4)

    def test_pairs_are_the_model_s_two_texts(self):
        model = self.model("no", "maybe", "yes")
        row = self.sluice("classify", "--model", model, "--pair", "--all", "--logits", texts=["gpus are shared\tby leases"])[0]
        got = {one["label"]: one["score"] for one in row["labels"]}
        np.testing.assert_allclose([got["no"], got["maybe"], got["yes"]], self.logits(model, "gpus are shared", "by leases"), atol=1e-4)

    def test_bad_lines_are_errors_and_the_rest_goes_on(self):
        model = self.model("a", "b")
        rows = self.sluice("classify", "--model", model, "--pair", texts=["one", "x\ty", "x\t "], code=1)
        self.assertIn("stdin:1: has no tab", rows[0]["error"])
        self.assertIn("label", rows[1])
        self.assertIn("stdin:3: the second text is empty", rows[2]["error"])

    def test_other_models_are_refused_with_what_takes_them(self):
        self.sluice("classify", "--model", self.model("O", "B-PER", task="Token"), texts=["x"], code=1)
        self.assertIn("sluice tag", self.said)
        self.sluice("classify", "--model", reference.random_bert(self.folder / "plain", VOCABULARY), texts=["x"], code=2)
        self.assertIn("is an encoder without a head (an output logits): sluice embed takes it", self.said)

    def test_id2label_that_does_not_fit_is_named(self):
        self.sluice("classify", "--model", self.model("a", "b", id2label={"7": "x"}), texts=["x"], code=2)
        self.assertIn("id2label has '7', and the model 2 outputs", self.said)


class Long(Case):
    def test_a_pair_of_long_texts_takes_memory_in_proportion(self):
        model = self.model("no", "yes")
        text = "a b c d e f g h " * 20_000
        done = subprocess.run(["bash", "-c", 'ulimit -v 3000000; exec "$@"', "-", SLUICE, "classify", "--model", model, "--pair", "--in", "-",
                               "--threads", "1"], input=f"{text}\t{text}\na\tb\n", capture_output=True, text=True)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2), done.stderr)

    def test_threads_that_cannot_start_are_an_error(self):
        done = subprocess.run(["bash", "-c", 'ulimit -v 3000000; exec "$@"', "-", SLUICE, "classify", "--model", self.model("a", "b"),
                               "--in", "-", "--threads", "1024"], input="a\n", capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("give fewer", done.stderr)


class Rerank(Case):
    def test_passages_are_sorted_by_the_reference_s_scores(self):
        model = self.model("relevance")
        passages = ["gpus", "a lease of memory", "zebra", "the fox", "so on, and so on"]
        rows = self.sluice("rerank", "--model", model, "--query", "who leases", "--top", 3, "--json", texts=passages)
        scores = [float(self.logits(model, "who leases", p)[0]) for p in passages]
        best = sorted(range(5), key=lambda i: -scores[i])[:3]
        self.assertEqual([row["line"] - 1 for row in rows], best)
        np.testing.assert_allclose([row["score"] for row in rows], [scores[i] for i in best], atol=1e-4)

    def test_a_model_with_labels_is_no_cross_encoder(self):
        self.sluice("rerank", "--model", self.model("a", "b"), "--query", "x", texts=["y"], code=1)
        self.assertIn("has 2 outputs: a cross-encoder has one", self.said)


class Tag(Case):
    LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")

    def words(self, model, text, rule):
        """(label, share, begin, end) of each word, by tokens of the oracle."""
        encoded, shares = self.encoded(model, text), softmax(self.logits(model, text))
        words = {}
        for i, word in enumerate(encoded.word_ids):
            if word is not None: words.setdefault(word, []).append(i)
        for tokens in words.values():
            rows = shares[tokens]
            row = rows[0] if rule == "first" else rows.mean(0) if rule == "mean" else rows[rows.max(1).argmax()]
            yield self.LABELS[row.argmax()], row.max(), encoded.offsets[tokens[0]][0], encoded.offsets[tokens[-1]][1]

    def entities(self, model, text, rule):
        made, before = [], "O"
        for label, share, begin, end in self.words(model, text, rule):
            kind = label[2:]
            if label == "O": pass
            elif before[2:] == kind and before != "O" and label[0] == "I":
                made[-1]["shares"].append(share)
                made[-1]["end"] = end
            else: made.append({"type": kind, "begin": begin, "end": end, "shares": [share]})
            before = label
        return made

    def test_entities_equal_those_of_the_reference_s_tokens_by_each_rule(self):
        model = self.model(*self.LABELS, task="Token")
        texts = ["gpus are shared, the quick brown fox jumps.", "é zebra é", "a b c d e f g h", "unknown ☃ sign"]
        for rule in ("first", "mean", "highest"):
            found = 0
            for row, text in zip(self.sluice("tag", "--model", model, "--words", rule, texts=texts), texts):
                want = self.entities(model, text, rule)
                self.assertEqual([(e["type"], e["begin"], e["end"]) for e in row["entities"]],
                                 [(e["type"], e["begin"], e["end"]) for e in want])
                for got, one in zip(row["entities"], want):
                    self.assertEqual(got["text"], text[one["begin"]:one["end"]])
                    self.assertAlmostEqual(got["score"], float(np.mean(one["shares"])), places=5)
                found += len(want)
            self.assertGreater(found, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
