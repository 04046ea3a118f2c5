"""sluice tokenize beside Hugging Face tokenizers: documents, code points and odd strings in the
tokenizers of a dozen families, and the command's own behavior.

Usage: tokenize_test.py SLUICE DATA_FOLDER [--long]
--long takes every document, every code point and a million strings for each family: an hour."""
import json, lzma, pathlib, random, subprocess, sys, tempfile, unittest

try:
    import sentencepiece  # of the families
    from tokenizers import Tokenizer
except ImportError as e:
    print(f"skipped: {e.name} is not installed")
    sys.exit(77)
import tokenizer_families

LONG = "--long" in sys.argv and not sys.argv.remove("--long")
DATA = pathlib.Path(sys.argv.pop(2))
SLUICE = sys.argv.pop(1)
if not (DATA / "tokenizer").is_dir():
    print(f"skipped: {DATA} has no tokenizer/")
    sys.exit(77)

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SIGNS = [*map(chr, [*range(0x20, 0x7F), *range(0x20, 0x7F), *range(0x300, 0x370), *range(0xC0, 0x250), 0, 1, 9, 10,
                    11, 12, 13, 0x1C, 0x7F, 0x85, 0xA0, 0xAD, 0x200B, 0x200C, 0x200D, 0x2028, 0x3000, 0xFEFF, 0xFFFD,
                    0x1F600, 0x1F468, 0x1F3FB, 0x1F1E6, 0x1F1E7, 0xE0020, 0xFE0F, 0xAC00, 0xAC01, 0x1100, 0x1161,
                    0x11A8, 0x4E00, 0x3042, 0x309A, 0x622, 0x653, 0x5D0, 0x5B0, 0x915, 0x94D, 0x93C, 0xE33, 0x130,
                    0xDF, 0x1E9E, 0x3A3, 0x3C2, 0xFB01, 0x212B, 0x344, 0xF73, 0xF71, 0x1D15E, 0x2F800, 0xBD, 0x600])]
MARKS = ["[MASK]", "<mask>", "[SEP] ", " </s>", "<s>", "<unk>", "[UNK]x", "   ", "'s", "n't", "\u0301", "``"]


def strings(count, seed=1):
    """Mixed scripts, combining marks, emoji, CJK, controls, and parts of added tokens."""
    r = random.Random(seed)
    for _ in range(count):
        kind = r.randrange(5)
        if kind == 0: text = "".join(chr(r.choice(CODE_POINTS)) for _ in range(r.randrange(12)))
        elif kind == 1: text = "".join(r.choice(SIGNS) for _ in range(r.randrange(40)))
        elif kind == 2:
            text = "".join(chr(r.randrange(0x20, 0x7F)) if r.random() < .9 else r.choice(SIGNS) for _ in range(r.randrange(60)))
        elif kind == 3:
            text = " ".join("".join(r.choices("etaoinshrdlu", k=r.randrange(1, 12))) + r.choice(["", "", ".", ",", *MARKS])
                            for _ in range(r.randrange(1, 12)))
        else:
            block = r.randrange(0x2FA0) * 16
            text = "".join(chr(c) if not 0xD800 <= c < 0xE000 else "x" for c in (block + r.randrange(64) for _ in range(12)))
            text = r.choice([text, text + r.choice(MARKS) + text])
        yield text


class Case(unittest.TestCase):
    maxDiff = 2000

    def sluice(self, model, given, *arguments, code=0):
        done = subprocess.run([SLUICE, "tokenize", "--model", str(model), "--in", "-", *map(str, arguments)],
                              input=given if isinstance(given, bytes) else given.encode(), capture_output=True)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.said = done.stderr.decode()
        return done.stdout.decode().split("\n")[:-1]

    def of_texts(self, model, texts, *arguments, pairs=None, code=0):
        objects = [{"text": t} if pairs is None else {"text": t, "pair": pairs[i]} for i, t in enumerate(texts)]
        return self.sluice(model, "".join(json.dumps(o) + "\n" for o in objects), "--format", "ndjson", *arguments, code=code)


class Reference(Case):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(kept.cleanup)
        cls.paths = {"bert-uncased": DATA / "tokenizer" / "tokenizer.json",
                     **tokenizer_families.write(DATA, kept.name)}
        cls.spm = pathlib.Path(kept.name) / "spiece.model"
        cls.documents = tokenizer_families.documents(DATA)

    def of(self, encoding):
        return {"ids": encoding.ids, "tokens": encoding.tokens, "type_ids": encoding.type_ids,
                "special_tokens_mask": encoding.special_tokens_mask, "word_ids": encoding.word_ids,
                "offsets": [list(span) for span in encoding.offsets]}

    def compare(self, name, texts, truncation=None, pairs=None, special=True):
        reference = Tokenizer.from_file(str(self.paths[name]))
        reference.no_padding()
        reference.no_truncation()
        arguments = [] if special else ["--no-special"]
        if truncation:
            reference.enable_truncation(**truncation)
            arguments += ["--max-length", truncation["max_length"], "--stride", truncation.get("stride", 0),
                          "--side", truncation.get("direction", "right"), "--truncate", truncation.get("strategy", "longest_first")]
        if pairs: arguments.append("--pair")
        lines = self.of_texts(self.paths[name], texts, "--json", "--offsets", *arguments, pairs=pairs)
        self.assertEqual(len(lines), len(texts))
        for i, (text, line) in enumerate(zip(texts, lines)):
            want = reference.encode(text, pairs[i] if pairs else None, add_special_tokens=special)
            have = json.loads(line)
            overflow = have.pop("overflow", [])
            for part in overflow: part.pop("overflow", None)
            self.assertEqual(have, self.of(want), (name, text))
            if not pairs: self.assertEqual(overflow, [self.of(part) for part in want.overflowing], (name, text))
        if pairs: return
        quick = self.of_texts(self.paths[name], texts, *arguments)
        for text, have, line in zip(texts, quick, lines):
            self.assertEqual(have, " ".join(map(str, json.loads(line)["ids"])), (name, text))

    def test_documents(self):
        for name in self.paths:
            for file, texts in self.documents.items():
                self.compare(name, texts if LONG else texts[::max(1, len(texts) // 60)])

    def test_every_code_point_alone_and_between_letters(self):
        for name in self.paths:
            points = CODE_POINTS if LONG else CODE_POINTS[:0x3100:3] + CODE_POINTS[0x3100:0x30000:97]
            for at in range(0, len(points), 100_000):
                some = points[at:at + 100_000]
                self.compare(name, [chr(c) for c in some] + [f"ab{chr(c)}cd" for c in some])

    def test_odd_strings(self):
        for name in self.paths:
            for seed in range(20 if LONG else 1):
                self.compare(name, list(strings(50_000 if LONG else 1500, seed)))

    def test_without_special_tokens(self):
        for name in self.paths: self.compare(name, list(strings(150, 5)), special=False)

    def test_truncation_with_a_stride(self):
        texts = list(strings(150, 2))
        for name in self.paths:
            for length, stride in ((4, 0), (9, 3), (24, 1)):
                for side in ("right", "left"):
                    self.compare(name, texts, {"max_length": length, "stride": stride, "direction": side})

    def test_pairs(self):
        texts, pairs = list(strings(200, 3)), list(strings(200, 4))
        for name in self.paths:
            self.compare(name, texts, pairs=pairs)
            self.compare(name, texts, {"max_length": 12, "stride": 2}, pairs=pairs)

    def test_decoding(self):
        for name, path in self.paths.items():
            reference = Tokenizer.from_file(str(path))
            lists = [reference.encode(text).ids for text in (*strings(300, 6), *self.documents["stsb_test.csv"][:50])]
            for skip in (True, False):
                have = self.sluice(path, "".join(json.dumps({"ids": ids}) + "\n" for ids in lists), "--decode", "--json",
                                   "--format", "ndjson", *([] if skip else ["--keep-special"]))
                self.assertEqual([json.loads(line)["text"] for line in have],
                                 [reference.decode(ids, skip_special_tokens=skip) if ids else "" for ids in lists], name)

    def test_sentencepiece_files(self):
        texts = [*strings(500, 7), *self.documents["stsb_test.csv"][:100]]
        self.assertEqual(self.of_texts(self.spm, texts, "--json"), self.of_texts(self.paths["from_spm"], texts, "--json"))

    def test_published_vectors_of_bert(self):
        vectors = [json.loads(line) for line in lzma.open(DATA / "tokenizer" / "bert_uncased_vectors.jsonl.xz", "rt")]
        for special in (True, False):
            some = [v for v in vectors if v["special"] == special]
            for model in ("tokenizer.json", "vocab.txt"):
                lines = self.of_texts(DATA / "tokenizer" / model, [v["text"] for v in some], *([] if special else ["--no-special"]))
                self.assertEqual(lines, [" ".join(map(str, v["ids"])) for v in some])


class Command(Case):
    model = DATA / "tokenizer" / "vocab.txt"

    def test_a_line_is_a_text(self):
        self.assertEqual(self.sluice(self.model, "hello world\r\n\nhello"), ["101 7592 2088 102", "101 102", "101 7592 102"])

    def test_offsets_stand_behind_ids(self):
        self.assertEqual(self.sluice(self.model, "hello\n", "--offsets"), ["101:0-0 7592:0-5 102:0-0"])

    def test_pairs_have_a_tab(self):
        self.assertEqual(self.sluice(self.model, "hello\tworld\n", "--pair"), ["101 7592 102 2088 102"])
        self.sluice(self.model, "hello\n", "--pair", code=1)
        self.assertIn("stdin:1: has no tab between two texts", self.said)

    def test_a_bad_line_is_reported_and_the_rest_goes_on(self):
        lines = self.sluice(self.model, '{"text": "hello"}\n{"title": 1}\n{"text": 5}\n{"te\n{"text": "world"}\n',
                            "--format", "ndjson", code=1)
        self.assertEqual(lines, ["101 7592 102", "", "", "", "101 2088 102"])
        self.assertIn("stdin:2: has no field text; it has title\n", self.said)
        self.assertIn("stdin:3: the field text is not a text", self.said)
        self.assertIn("stdin:4: the line must be a JSON object", self.said)
        lines = self.sluice(self.model, '{"title": 1}\n', "--format", "ndjson", "--json", code=1)
        self.assertEqual(json.loads(lines[0]), {"line": 1, "error": "stdin:1: has no field text; it has title"})

    def test_ill_formed_utf8_counts_as_replacement_characters(self):
        for raw in (b"a\xff b", b"\xe2\x82", b"x\xed\xa0\x80y", bytes(range(128, 256))):
            self.assertEqual(self.sluice(self.model, raw + b"\n"), self.sluice(self.model, raw.decode("utf-8", "replace") + "\n"))

    def test_ids_come_back_as_text(self):
        self.assertEqual(self.sluice(self.model, "101 7592 2088 102\n", "--decode"), ["hello world"])
        self.sluice(self.model, "101 x\n", "--decode", code=1)
        self.assertIn("stdin:1: has what is no id", self.said)

    def test_wrong_use_is_2_and_names_the_file(self):
        self.sluice("/nowhere/vocab.txt", "", code=1)
        self.assertIn("/nowhere/vocab.txt", self.said)
        self.sluice(self.model, "", "--stride", 3, code=2)
        self.sluice(self.model, "", "--max-length", 0, code=2)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"model": {"type": "WordPiece", "vocab": {"a": "b"}}}')
            file.flush()
            self.sluice(file.name, "", code=2)
            self.assertIn(f"{file.name}: model.vocab.a: must be an integer", self.said)


if __name__ == "__main__":
    unittest.main()
