"""sluice.text beside the command line and a reference encoder.

Usage: text_module_test.py PYTHON_FOLDER LIBRARY"""
import os, pathlib, sys, tempfile, threading, unittest

try:
    import numpy as np
    from tokenizers import BertWordPieceTokenizer
except ImportError as e:
    print(f"skipped: {e.name} is not installed")
    sys.exit(77)
os.environ["SLUICE_MODELS_LIBRARY"] = sys.argv.pop(2)
sys.path.insert(0, sys.argv.pop(1))
import encoder_reference as reference
from sluice import text

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *LETTERS, *("##" + c for c in LETTERS)]
TEXTS = ["gpus are shared", "a lease", "naïve 🙂 text", "x\0y"]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bert(self, name="model", **how):
        return reference.random_bert(self.folder / name, VOCABULARY, **how)

    def encoded(self, model, *texts):
        return BertWordPieceTokenizer(str(model / "vocab.txt"), lowercase=True).encode(*texts)


class Embedding(Case):
    def test_vectors_equal_the_reference(self):
        model = self.bert()
        made = text.embed(TEXTS, model=model)
        self.assertEqual((made.shape, made.dtype), ((4, 32), np.float32))
        for vector, one in zip(made, TEXTS):
            np.testing.assert_allclose(vector, reference.Bert(model).tokens(self.encoded(model, one).ids).mean(0), atol=2e-5)
        self.assertEqual(text.embed([], model=model).shape, (0, 32))

    def test_options_are_the_command_s_and_unknown_ones_are_refused(self):
        model = self.bert()
        np.testing.assert_allclose(np.linalg.norm(text.embed(TEXTS, model=model, normalize=True, dimensions=7), axis=1), 1, atol=1e-6)
        for options, said in (({"pooling": "best"}, "pooling is mean"), ({"dimensions": 99}, "99 dimensions"),
                              ({"max_length": 1000}, "positions for 64"), ({"prompt_name": "q"}, "no prompt 'q'")):
            with self.assertRaisesRegex(text.ModelError, said): text.embed(["a"], model=model, **options)
        with self.assertRaises(TypeError): text.embed(["a"], model=model, depth=3)
        self.assertTrue((text.embed("gpus", model=model) == text.embed(["gpus"], model=model)[0]).all())
        with self.assertRaisesRegex(TypeError, "text 1 is of type int"): text.embed(["a", 3], model=model)
        with self.assertRaisesRegex(TypeError, "not one dict"): text.embed({"a": 1}, model=model)
        with self.assertRaisesRegex(text.ModelError, "neither model.onnx nor config.json"): text.embed(["a"], model=self.folder)

    def test_texts_without_an_answer_are_named_or_reported(self):
        model = self.bert()
        with self.assertRaisesRegex(text.TextError, "text 1: the text is empty, and 1 more") as caught:
            text.embed(["a", "", "b", " "], model=model)
        self.assertEqual(sorted(caught.exception.errors), [1, 3])
        with text.Embedder(model) as opened:
            made = opened.embed(["a", "", "b"], errors="report")
            self.assertEqual(opened.last_report["errors"], {1: "the text is empty"})
            self.assertEqual(list(np.isnan(made).all(1)), [False, True, False])
        with self.assertRaisesRegex(text.ModelError, "closed"): opened.embed(["a"])

    def test_a_forked_child_ends_and_opens_its_own(self):
        model = self.bert()
        opened = text.Embedder(model, threads=2)
        want = text.embed(["gpus"], model=model)
        child = os.fork()
        if child == 0:
            ok = False
            try:
                try: opened.embed(["a"])
                except text.ModelError as e: ok = "before a fork" in str(e)
                ok = ok and (text.embed(["gpus"], model=model) == want).all()
                opened.close()
            finally: os._exit(0 if ok else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_threads_share_a_model(self):
        model, made = text.Embedder(self.bert(), threads=2), [None] * 6
        def run(i): made[i] = [model.embed(TEXTS[i % 4:i % 4 + 1]) for _ in range(30)]
        threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        want = model.embed(TEXTS)
        with self.subTest("entities and labels of each call"):
            tagger = text.Tagger(self.bert("tags", task="Token", labels=("B-A", "I-A", "O")), threads=1)
            alone = [tagger.tag([one])[0] for one in TEXTS]
            wrong = []
            def tag(i):
                for _ in range(200):
                    if tagger.tag([TEXTS[i % 4]])[0] != alone[i % 4]: wrong.append(i)
            threads = [threading.Thread(target=tag, args=(i,)) for i in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            self.assertEqual(wrong, [])
        many = model.embed(TEXTS * 50)  # several blocks
        self.assertTrue((many == np.tile(want, (50, 1))).all())
        for i, all in enumerate(made):
            for one in all: self.assertTrue((one[0] == want[i % 4]).all())


class Labels(Case):
    def test_classify_scores_and_pairs(self):
        model = self.bert(task="Sequence", labels=("no", "yes"))
        logits = lambda *texts: reference.Bert(model).logits((e := self.encoded(model, *texts)).ids, e.type_ids)
        opened = text.Classifier(model)
        self.assertEqual((opened.labels, opened.problem), (["no", "yes"], "single_label"))
        np.testing.assert_allclose(opened.scores(TEXTS, logits=True), [logits(t) for t in TEXTS], atol=1e-4)
        np.testing.assert_allclose(opened.scores(["a"], ["b c"], logits=True)[0], logits("a", "b c"), atol=1e-4)
        for (label, score), one in zip(text.classify(TEXTS, model=model), TEXTS):
            shares = np.exp(logits(one)) / np.exp(logits(one)).sum()
            self.assertEqual(label, ["no", "yes"][int(shares.argmax())])
            self.assertAlmostEqual(score, float(shares.max()), places=5)
        self.assertEqual(opened.classify(["", "a"], errors="report")[0], None)
        self.assertEqual([label for label, _ in opened.classify(["a"], top=2)[0]],
                         [label for _, label in sorted(zip(-logits("a"), ["no", "yes"]))])
        with self.assertRaisesRegex(text.ModelError, "2 outputs"): text.rerank("q", ["a"], model=model)

    def test_rerank_sorts_passages(self):
        model = self.bert(task="Sequence", labels=("score",))
        logits = [float(reference.Bert(model).logits((e := self.encoded(model, "who", t)).ids, e.type_ids)[0]) for t in TEXTS]
        got = text.rerank("who", TEXTS, model=model, top=3)
        self.assertEqual([i for i, _ in got], sorted(range(4), key=lambda i: -logits[i])[:3])
        np.testing.assert_allclose([score for _, score in got], sorted(logits, reverse=True)[:3], atol=1e-4)

    def test_tag_gives_entities_with_offsets_of_python(self):
        model = self.bert(task="Token", labels=("B-A", "I-A"))
        one = "é naïve 🙂 text"
        entities, = text.tag([one], model=model)
        self.assertTrue(entities)
        for entity in entities: self.assertEqual(one[entity.begin:entity.end], entity.text)
        self.assertEqual((entities[0].begin, entities[-1].end), (0, len(one)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
