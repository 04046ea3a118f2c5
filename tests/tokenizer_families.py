"""Tokenizer files of the families that people use: vocabularies trained here, by `tokenizers` and
`sentencepiece` themselves, with each family's own normalizer, pre-tokenizer and post-processor.

Usage: tokenizer_families.py DATA_FOLDER OUT_FOLDER"""
import csv, io, json, lzma, pathlib, struct, sys

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders as d, models as m, normalizers as n,
                        pre_tokenizers as p, processors as pp, trainers as t)

BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def documents(data):
    """{file: texts} of all that the folder holds: articles, titles, sentences, headlines."""
    csv.field_size_limit(1 << 30)
    found = {}
    for path in sorted(pathlib.Path(data).glob("*/*.csv*")):
        if path.parent.name not in ("news", "sts", "headlines"): continue
        raw = lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()
        columns = ("title", "text", "sentence1", "sentence2", "headline")
        found[path.name] = [row[c] for row in csv.DictReader(io.StringIO(raw.decode(), newline=""))
                            for c in columns if row.get(c)]
    for path in sorted(pathlib.Path(data).glob("ner/*.conll.xz")):
        sentences = lzma.open(path, "rt").read().split("\n\n")
        found[path.name] = [" ".join(l.split("\t")[0] for l in s.splitlines()) for s in sentences]
    return found


def bert_template(cls="[CLS]", sep="[SEP]", ids=(2, 3)):
    return pp.TemplateProcessing(single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B:1 {sep}:1",
                                 special_tokens=[(cls, ids[0]), (sep, ids[1])])


def fields(message):
    """(number, value) of a Protocol Buffers message."""
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]; at += 1
            value |= (byte & 127) << shift; shift += 7
            if byte < 128: return value
    while at < len(message):
        tag = varint()
        if tag & 7 == 0: yield tag >> 3, varint()
        else:
            size = varint() if tag & 7 == 2 else 4
            yield tag >> 3, message[at:at + size]; at += size


def wordpiece(texts, lowercase, special=BERT_SPECIAL, unk="[UNK]"):
    tok = Tokenizer(m.WordPiece(unk_token=unk))
    tok.normalizer = n.BertNormalizer(lowercase=lowercase)
    tok.pre_tokenizer = p.BertPreTokenizer()
    tok.decoder = d.WordPiece()
    tok.train_from_iterator(texts, t.WordPieceTrainer(vocab_size=4000, special_tokens=special, show_progress=False))
    return tok


def byte_bpe(texts, special, prefix_space):
    tok = Tokenizer(m.BPE())
    tok.pre_tokenizer = p.ByteLevel(add_prefix_space=prefix_space)
    tok.decoder = d.ByteLevel()
    tok.train_from_iterator(texts, t.BpeTrainer(vocab_size=4000, special_tokens=special, show_progress=False,
                                                initial_alphabet=p.ByteLevel.alphabet()))
    return tok


def bert_cased(texts, _):
    tok = wordpiece(texts, False)
    tok.post_processor = bert_template()
    return tok


def distilbert(texts, _):
    tok = wordpiece(texts, True)
    tok.post_processor = pp.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tok


def mpnet(texts, _):
    tok = wordpiece(texts, True, ROBERTA_SPECIAL[:4] + ["[UNK]"], "[UNK]")
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tok.post_processor = pp.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return tok


def roberta(texts, _):
    tok = byte_bpe(texts, ROBERTA_SPECIAL[:4], True)
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False),
                            AddedToken("<s>", normalized=True)])
    tok.post_processor = pp.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return tok


def modernbert(texts, _):
    tok = byte_bpe(texts, BERT_SPECIAL, False)
    tok.normalizer = n.NFC()
    tok.add_tokens([AddedToken(" " * k, normalized=True) for k in range(24, 1, -1)])
    tok.add_tokens([AddedToken("|||IP_ADDRESS|||", normalized=True, single_word=True)])
    tok.post_processor = bert_template()
    return tok


def split_bpe(pattern):
    def make(texts, _):
        tok = byte_bpe(texts, ["<|begin_of_text|>"], False)
        tok.pre_tokenizer = p.Sequence([p.Split(Regex(pattern), "isolated"),
                                        p.ByteLevel(add_prefix_space=False, use_regex=False)])
        tok.post_processor = pp.Sequence([pp.ByteLevel(trim_offsets=False), pp.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", 0)])])
        return tok
    return make


def unigram(pieces, normalizer, pre_tokenizer, processor):
    tok = Tokenizer(m.Unigram(pieces, unk_id=pieces.index(("<unk>", 0.0))))
    tok.normalizer, tok.pre_tokenizer, tok.post_processor = normalizer, pre_tokenizer, processor
    tok.decoder = d.Metaspace()
    return tok


def xlm_roberta(_, spm):
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *spm["pieces"][3:], ("<mask>", 0.0)]
    tok = unigram(pieces, n.Sequence([n.Precompiled(spm["charsmap"]), n.Replace(Regex(" {2,}"), " ")]),
                  p.Sequence([p.WhitespaceSplit(), p.Metaspace()]),
                  pp.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                        special_tokens=[("<s>", 0), ("</s>", 2)]))
    tok.add_special_tokens([*ROBERTA_SPECIAL[:4], AddedToken("<mask>", lstrip=True, normalized=False)])
    return tok


def t5(_, spm):
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *spm["pieces"][3:]]
    tok = unigram(pieces, n.Precompiled(spm["charsmap"]), p.Metaspace(prepend_scheme="first"),
                  pp.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]))
    tok.add_special_tokens(["<pad>", "</s>", "<unk>", *(f"<extra_id_{i}>" for i in range(9))])
    return tok


def albert(_, spm):
    tok = unigram([("<pad>", 0.0), ("<unk>", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), *spm["pieces"][3:]],
                  n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(),
                              n.Lowercase(), n.Precompiled(spm["charsmap"]), n.Replace(Regex(" {2,}"), " ")]),
                  p.Metaspace(), bert_template())
    tok.add_special_tokens(["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True)])
    return tok


def other(texts, spm):
    """What the families do not use: the rest of the parts, once each."""
    tok = Tokenizer(m.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>", fuse_unk=True))
    tok.normalizer = n.Sequence([n.Strip(), n.Nmt(), n.NFKC(), n.NFD(), n.Prepend("_"), n.Replace("x", "yy")])
    tok.pre_tokenizer = p.Sequence([p.Whitespace(), p.Punctuation("merged_with_previous"), p.Digits(True),
                                    p.CharDelimiterSplit("-"), p.Split(Regex("[aeiou]+"), "merged_with_next"),
                                    p.Split("t", "contiguous"), p.Split(Regex(r"\w{3,9}"), "removed", invert=True)])
    tok.decoder = d.BPEDecoder()
    tok.train_from_iterator(texts[:500], t.BpeTrainer(vocab_size=900, special_tokens=["<unk>"], show_progress=False,
                                                      continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tok.add_tokens([AddedToken("the", single_word=True, rstrip=True), AddedToken("É", normalized=True)])
    return tok


FAMILIES = {"bert-cased": bert_cased, "distilbert": distilbert, "mpnet": mpnet, "roberta": roberta,
            "modernbert": modernbert, "xlm-roberta": xlm_roberta, "t5": t5, "albert": albert,
            "llama3": split_bpe(LLAMA3), "gpt-4o": split_bpe(O200K), "other": other}


def from_spm(spm):
    """As SentencePieceUnigramTokenizer.from_spm makes it, without its protobuf module."""
    tok = Tokenizer(m.Unigram(spm["pieces"], 0, False))
    tok.normalizer = n.Sequence([n.Precompiled(spm["charsmap"]), n.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer, tok.decoder = p.Metaspace(), d.Metaspace()
    return tok


def train_sentencepiece(texts, folder):
    model = folder / "spiece.model"
    with open(model, "wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=out, vocab_size=4000, model_type="unigram",
            normalization_rule_name="nmt_nfkc", minloglevel=2, num_threads=2)
    parts = list(fields(model.read_bytes()))
    read = lambda piece: (piece[1].decode(), struct.unpack("<f", piece[2])[0])
    pieces = [read({2: b"\0\0\0\0", **dict(fields(value))}) for number, value in parts if number == 1]
    charsmap = dict(fields(dict(parts)[3]))[2]
    return {"model": model, "pieces": pieces, "charsmap": charsmap}


def write(data, folder):
    """{family: path} of files that it writes."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    all_texts = documents(data)
    texts = [text for name in ("uci_news_titles.csv.xz", "clickbait_32k.csv.xz") for text in all_texts[name][:6000]]
    texts += all_texts["senate_articles.csv.xz"][:200]
    spm = train_sentencepiece(texts, folder)
    paths = {}
    for name, make in FAMILIES.items():
        paths[name] = folder / f"{name}.json"
        make(texts, spm).save(str(paths[name]))
    from_spm(spm).save(str(folder / "from_spm.json"))
    paths["from_spm"] = folder / "from_spm.json"
    return paths


if __name__ == "__main__":
    print(*write(*sys.argv[1:]).values(), sep="\n")
