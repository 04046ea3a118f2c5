"""A BERT encoder in double precision with NumPy, from a folder as transformers saves it; and folders
with random weights. Independent of Sluice: weights are read here, ids come from HF tokenizers."""
import json, math, pathlib, struct

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    types = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    return {name: np.frombuffer(data, types[t["dtype"]], offset=8 + size + t["data_offsets"][0],
                                count=int(np.prod(t["shape"]))).reshape(t["shape"])
            for name, t in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text +
                                   b"".join(x.tobytes() for x in tensors.values()))


class Bert:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {k.removeprefix("bert."): v.astype(np.float64)
                        for k, v in read_safetensors(folder / "model.safetensors").items()}

    def norm(self, x, name):
        mean = x.mean(-1, keepdims=True)
        spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return (x - mean) / spread * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def logits(self, ids, types=0):
        """Of a text by its pooler and classifier; of a token classifier, [tokens, labels]."""
        x = self.tokens(ids, types)
        if self.config["architectures"][0].endswith("TokenClassification"): return self.linear(x, "classifier")
        return self.linear(np.tanh(self.linear(x[0], "pooler.dense")), "classifier")

    def tokens(self, ids, types=0):
        """The last hidden states of one text, [tokens, width]."""
        table = lambda name: self.weights[f"embeddings.{name}_embeddings.weight"]
        first = self.config["pad_token_id"] + 1 if self.config["model_type"] == "roberta" else 0
        x = table("word")[ids] + table("position")[first:first + len(ids)] + table("token_type")[types]
        x = self.norm(x, "embeddings.LayerNorm")
        heads = self.config["num_attention_heads"]
        size = self.config["hidden_size"] // heads
        for i in range(self.config["num_hidden_layers"]):
            at = f"encoder.layer.{i}."
            q, k, v = (self.linear(x, f"{at}attention.self.{n}").reshape(-1, heads, size).swapaxes(0, 1)
                       for n in ("query", "key", "value"))
            scores = q @ k.swapaxes(1, 2) / math.sqrt(size)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            mixed = (shares @ v).swapaxes(0, 1).reshape(len(ids), -1)
            x = self.norm(self.linear(mixed, at + "attention.output.dense") + x,
                          at + "attention.output.LayerNorm")
            inner = self.linear(x, at + "intermediate.dense")
            inner = inner * (1 + _erf(inner / math.sqrt(2))) / 2
            x = self.norm(self.linear(inner, at + "output.dense") + x, at + "output.LayerNorm")
        return x


def random_bert(folder, vocabulary, hidden=32, layers=2, heads=4, positions=64, seed=3, kind="bert", task=None,
                labels=(), **config):
    """A folder with config.json, model.safetensors and vocab.txt; task: Sequence or Token classification."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    tensors = {}

    def put(name, *shape, around=0.0):
        tensors[name] = (around + 0.3 * random.standard_normal(shape)).astype(np.float32)

    def linear(name, into, out):
        put(name + ".weight", out, into)
        put(name + ".bias", out)

    def norm(name):
        put(name + ".weight", hidden, around=1.0)
        put(name + ".bias", hidden)

    put("embeddings.word_embeddings.weight", len(vocabulary), hidden)
    put("embeddings.position_embeddings.weight", positions, hidden)
    put("embeddings.token_type_embeddings.weight", 2, hidden)
    norm("embeddings.LayerNorm")
    for i in range(layers):
        at = f"encoder.layer.{i}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense"):
            linear(at + name, hidden, hidden)
        norm(at + "attention.output.LayerNorm")
        linear(at + "intermediate.dense", hidden, 2 * hidden)
        linear(at + "output.dense", 2 * hidden, hidden)
        norm(at + "output.LayerNorm")
    if task == "Sequence": linear("pooler.dense", hidden, hidden)
    if task: linear("classifier", hidden, len(labels))
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({
        "model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": 2 * hidden, "hidden_act": "gelu", "pad_token_id": 0,
        "max_position_embeddings": positions, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "vocab_size": len(vocabulary), **({"architectures": [f"BertFor{task}Classification"],
                                           "id2label": dict(enumerate(labels))} if task else {}), **config}))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return folder
