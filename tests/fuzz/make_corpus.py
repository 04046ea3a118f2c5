#!/usr/bin/env python3
"""Writes what fuzzing begins with: small models, encoders' folders and plans.

    tests/fuzz/make_corpus.py OUT [SLUICE]     # OUT/onnx, OUT/hf and, by the program, OUT/plan

What is kept in tests/fuzz/corpus was found from these and made small again by libFuzzer:

    onnx_fuzz -max_total_time=300 new OUT/onnx && onnx_fuzz -merge=1 tests/fuzz/corpus/onnx new
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import onnx_write as onnx  # noqa: E402


def ramp(count, low=-1.0, high=1.0):
    return [low + (high - low) * i / max(count - 1, 1) for i in range(count)]


def weights(name, *shape):
    count = 1
    for size in shape:
        count *= size
    return onnx.floats(name, shape, ramp(count))


def integers(name, values):
    return (onnx.integer(1, len(values)) + onnx.integer(2, 7) + onnx.data(8, name) +
            onnx.data(9, struct.pack(f"<{len(values)}q", *values)))


def texts(name, values):
    return (onnx.integer(1, len(values)) + onnx.integer(2, 8) +
            b"".join(onnx.data(6, value) for value in values) + onnx.data(8, name))


def file(name, content):
    return (onnx.integer(1, len(content)) + onnx.integer(2, 2) + onnx.data(8, name) +
            onnx.data(9, content))


def one(op, *inputs, outputs=1, opset=17, **attributes):
    """A model of one node. Inputs: a shape is one of the graph's, bytes are a constant."""
    names, given, kept = [], [], []
    for i, thing in enumerate(inputs):
        names.append(f"i{i}" if thing is not None else "")
        if isinstance(thing, bytes):
            kept.append(thing)
        elif thing is not None:
            dtype = "int64" if thing and thing[-1] == "int64" else "float32"
            given.append(onnx.value(f"i{i}", dtype, [d for d in thing if d != "int64"]))
    made = [f"o{i}" for i in range(outputs)]
    return onnx.model([onnx.node(op, names, made, **attributes)], given,
                      [onnx.value(name, "float32", []) for name in made], kept, opset)


def single_nodes():
    """By name; an input i1 that is constant is called so in its tensor too."""
    row, image, steps = [2, 6], [1, 2, 5, 5], [3, 2, 4]
    for op in ("Relu", "Erf", "Exp", "Softmax", "Sigmoid", "HardSwish", "Not", "Shape", "Size",
               "NonZero", "Flatten", "Identity", "IsNaN", "Round", "LogSoftmax", "Hardmax"):
        yield op, one(op, row)
    for op in ("Add", "Pow", "Mod", "Max", "Equal", "And", "BitShift", "PRelu", "Where"):
        yield op, one(op, row, weights("i1", 6))
    for op in ("ReduceSum", "ReduceMean", "ReduceLogSumExp", "Squeeze", "Unsqueeze"):
        yield op, one(op, [2, 1, 6], integers("i1", [1]))
    yield "Cast", one("Cast", row, to=7)
    yield "Transpose", one("Transpose", [2, 3, 4], perm=[2, 0, 1])
    yield "Reshape", one("Reshape", row, integers("i1", [-1, 4]))
    yield "Expand", one("Expand", [2, 1], integers("i1", [2, 5]))
    yield "Tile", one("Tile", row, integers("i1", [2, 3]))
    yield "Slice", one("Slice", row, integers("i1", [4]), integers("i2", [-9]),
                       integers("i3", [1]), integers("i4", [-2]))
    yield "Pad", one("Pad", row, integers("i1", [1, 0, 0, 2]), mode="reflect")
    yield "Concat", one("Concat", row, row, axis=1)
    yield "Split", one("Split", row, integers("i1", [2, 4]), outputs=2, axis=1)
    yield "Gather", one("Gather", row, integers("i1", [1, 0, -1]), axis=1)
    yield "GatherND", one("GatherND", row, [2, 1, "int64"])
    yield "ScatterElements", one("ScatterElements", row, [2, 6, "int64"], row, axis=0)
    yield "ScatterND", one("ScatterND", row, [2, 1, "int64"], row)
    yield "OneHot", one("OneHot", [3, "int64"], integers("i1", [4]), weights("i2", 2))
    yield "TopK", one("TopK", row, integers("i1", [2]), outputs=2, axis=1)
    yield "Unique", one("Unique", row, outputs=4, sorted=1)
    yield "CumSum", one("CumSum", row, integers("i1", [1]), reverse=1)
    yield "Range", one("Range", integers("i0", [1]), integers("i1", [9]), integers("i2", [3]))
    yield "Trilu", one("Trilu", [4, 4], upper=1)
    yield "MatMul", one("MatMul", [2, 3, 4], weights("i1", 4, 5))
    yield "Gemm", one("Gemm", row, weights("i1", 3, 6), weights("i2", 3), transB=1, alpha=0.5)
    yield "Einsum", one("Einsum", row, weights("i1", 6, 3), equation="ij,jk->ik")
    yield "Conv", one("Conv", image, weights("i1", 4, 1, 3, 3), weights("i2", 4), group=2,
                      pads=[1, 1, 1, 1], strides=[2, 1])
    yield "ConvTranspose", one("ConvTranspose", image, weights("i1", 2, 3, 3, 3),
                               output_padding=[0, 1], strides=[2, 2])
    yield "MaxPool", one("MaxPool", image, outputs=2, kernel_shape=[3, 2], ceil_mode=1,
                         dilations=[1, 2])
    yield "AveragePool", one("AveragePool", image, kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    yield "GlobalAveragePool", one("GlobalAveragePool", image)
    yield "BatchNormalization", one("BatchNormalization", image,
                                    *[weights(f"i{i}", 2) for i in range(1, 5)], epsilon=1e-5)
    yield "LayerNormalization", one("LayerNormalization", row, weights("i1", 6), weights("i2", 6))
    yield "InstanceNormalization", one("InstanceNormalization", image, weights("i1", 2),
                                       weights("i2", 2))
    yield "LRN", one("LRN", image, size=3)
    yield "Resize", one("Resize", image, None, weights("i2", 4), mode="cubic")
    yield "GridSample", one("GridSample", image, [1, 3, 3, 2], mode="bilinear")
    yield "DepthToSpace", one("DepthToSpace", [1, 4, 2, 2], blocksize=2, mode="CRD")
    yield "RoiAlign", one("RoiAlign", image, [1, 4], integers("i2", [0]), output_height=2,
                          output_width=2)
    yield "NonMaxSuppression", one("NonMaxSuppression", [1, 3, 4], [1, 2, 3], integers("i2", [2]))
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        yield op, one(op, steps, weights("i1", 1, gates * 3, 4), weights("i2", 1, gates * 3, 3),
                      outputs=2, hidden_size=3, direction="reverse")
    yield "QuantizeLinear", one("QuantizeLinear", row, weights("i1", 1), axis=1)
    yield "DynamicQuantizeLinear", one("DynamicQuantizeLinear", row, outputs=3)
    yield "ConstantOfShape", one("ConstantOfShape", [2, "int64"])
    yield "DFT", one("DFT", [1, 5, 1], opset=17, axis=1)
    yield "Attention", one("Attention", *3 * [[1, 2, 3, 4]], opset=23, is_causal=1)
    yield "StringNormalizer", one("StringNormalizer", row, case_change_action="UPPER")
    for name, pattern in (("classes", r"[^\W\d]+(?i:\p{Lu}|x)*?\.(?:a{2,3}|\x{e9}|$)"),
                          ("groups", r"(?P<n>(a|aa)*)*\b\Q.*\E^|[[:alpha:]-]{0,30}")):
        yield f"RegexFullMatch-{name}", one("RegexFullMatch", texts("i0", ["Ab.aa", "\u00e9", ""]),
                                            opset=20, pattern=pattern)
    for name, content in images():
        yield f"ImageDecoder-{name}", one("ImageDecoder", file("i0", content), opset=20,
                                          pixel_format="BGR")
    yield "SequenceConstruct", one("SequenceConstruct", row, row)
    yield "Bernoulli", one("Bernoulli", row, seed=1.0)


def chunk(name, content):
    return (struct.pack(">I", len(content)) + name + content +
            struct.pack(">I", zlib.crc32(name + content)))


def segment(marker, *content):
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + bytes(content)


def images():
    """Small ones of every format that is decoded."""
    yield "pnm", b"P6 2 1 255\n" + bytes(range(6))
    yield "pnm-text", b"P2 # grey\n2 1 9\n0 9 "
    yield "bmp", (b"BM" + struct.pack("<IIIIiiHHII", 62, 0, 54, 40, 2, 1, 1, 24, 0, 8) +
                  bytes(16 + 8))
    tags = [(256, 2), (257, 1), (258, 8), (259, 1), (262, 1), (273, 0), (277, 1), (278, 1)]
    yield "tiff", (b"II*\0" + struct.pack("<IH", 8, len(tags)) +
                   b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags))
    for name, colour, row, before in (("rgb", 2, bytes(6), b""), ("rgba", 6, bytes(8), b""),
                                      ("palette", 3, b"\0\1", chunk(b"PLTE", bytes(range(6))))):
        for laced in (0, 1):
            rows = b"\0" + row if not laced else b"".join(
                b"\0" + row[i:i + len(row) // 2] for i in (0, len(row) // 2))
            yield f"png-{name}-{laced}", (
                b"\x89PNG\r\n\x1a\n" +
                chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, colour, 0, 0, laced)) + before +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    # One block of a mean alone: codes "10" and ten bits of it, "0" for what it has beside.
    tables = (segment(0xDB, 0, *([1] * 64)) + segment(0xC4, 0, 1, 1, *([0] * 14), 0, 10) +
              segment(0xC4, 0x10, 1, *([0] * 15), 0))
    block = bytes([0b10101000, 0b00000111])
    yield "jpeg", (b"\xff\xd8" + tables + segment(0xC0, 8, 0, 8, 0, 8, 1, 0, 0x11, 0) +
                   segment(0xDA, 1, 0, 0, 0, 63, 0) + block + b"\xff\xd9")
    yield "jpeg-progressive", (
        b"\xff\xd8" + tables + segment(0xC2, 8, 0, 8, 0, 16, 3, 0, 0x21, 0, 1, 0x11, 0, 2, 0x11, 0) +
        segment(0xDA, 3, 0, 0, 1, 0, 2, 0, 0, 0, 0) + b"\x0f" +
        segment(0xDA, 1, 0, 0, 1, 63, 0) + b"\x3f" + b"\xff\xd9")


def whole_models():
    x, y = onnx.value("x", "float32", ["n", 4]), onnx.value("y", "float32", ["n", 4])
    yield "layers", onnx.model(
        [onnx.node("MatMul", ["x", "w"], ["a"]), onnx.node("Add", ["a", "b"], ["c"]),
         onnx.node("Relu", ["c"], ["d"]), onnx.node("Add", ["d", "x"], ["e"]),
         onnx.node("LayerNormalization", ["e", "b", "b"], ["y"])], [x], [y],
        [weights("w", 4, 4), weights("b", 4)])
    yield "shapes", onnx.model(
        [onnx.node("Shape", ["x"], ["s"]), onnx.node("Gather", ["s", "zero"], ["n"]),
         onnx.node("Concat", ["n", "rest"], ["to"], axis=0),
         onnx.node("Reshape", ["x", "to"], ["z"]),
         onnx.node("Transpose", ["z"], ["y"], perm=[0, 2, 1])], [x], [y],
        [integers("zero", [0]), integers("rest", [2, 2])])
    twice = onnx.graph([onnx.node("Add", ["x", "x"], ["z"])], [],
                       [onnx.value("z", "float32", ["n", 4])])
    as_is = onnx.graph([onnx.node("Identity", ["x"], ["z"])], [],
                       [onnx.value("z", "float32", ["n", 4])])
    yield "if", onnx.model(
        [onnx.node("ReduceMax", ["x"], ["m"], keepdims=0), onnx.node("Cast", ["m"], ["c"], to=9),
         onnx.node("If", ["c"], ["y"], then_branch=twice, else_branch=as_is)], [x], [y])
    body = onnx.graph(
        [onnx.node("Identity", ["cond"], ["again"]), onnx.node("Add", ["state", "x"], ["next"])],
        [onnx.value("i", "int64", []), onnx.value("cond", "bool", []),
         onnx.value("state", "float32", ["n", 4])],
        [onnx.value("again", "bool", []), onnx.value("next", "float32", ["n", 4])])
    yield "loop", onnx.model([onnx.node("Loop", ["times", "", "x"], ["y"], body=body)], [x], [y],
                             [integers("times", [3])])
    body = onnx.graph(
        [onnx.node("Add", ["sum", "row"], ["next"]), onnx.node("Identity", ["next"], ["out"])],
        [onnx.value("sum", "float32", [4]), onnx.value("row", "float32", [4])],
        [onnx.value("next", "float32", [4]), onnx.value("out", "float32", [4])])
    yield "scan", onnx.model(
        [onnx.node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)], [x], [y],
        [weights("start", 4)])


# ---- encoders' folders ----------------------------------------------------------------------

def encoder(kind, hidden=4, inner=6, words=5, places=6):
    config = {"model_type": kind, "hidden_size": hidden, "num_hidden_layers": 1,
              "num_attention_heads": 2, "intermediate_size": inner, "vocab_size": words,
              "max_position_embeddings": places, "type_vocab_size": 2, "hidden_act": "gelu",
              "layer_norm_eps": 1e-12, "pad_token_id": 1}
    names = ["attention.self.query", "attention.self.key", "attention.self.value",
             "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
             "output.dense", "output.LayerNorm"]
    at, types = "encoder.layer.0.", True
    if kind == "distilbert":
        config |= {"dim": hidden, "n_layers": 1, "n_heads": 2, "hidden_dim": inner,
                   "activation": "gelu", "sinusoidal_pos_embds": False}
        names = ["attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
                 "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"]
        at, types = "transformer.layer.0.", False
    shapes = {"embeddings.word_embeddings.weight": (words, hidden),
              "embeddings.position_embeddings.weight": (places, hidden)}
    if types:
        shapes["embeddings.token_type_embeddings.weight"] = (2, hidden)
    sizes = {names[5]: (inner, hidden), names[6]: (hidden, inner)}
    for name in ["embeddings.LayerNorm"] + [at + n for n in names]:
        norm = "norm" in name.lower()
        out, into = sizes.get(name.removeprefix(at), (hidden, hidden))
        shapes[name + ".weight"] = (hidden,) if norm else (out, into)
        shapes[name + ".bias"] = (hidden,) if norm else (out,)
    return json.dumps(config).encode() + b"\0" + safetensors(shapes)


def safetensors(shapes):
    head, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        piece = struct.pack(f"<{count}f", *ramp(count))
        head[name] = {"dtype": "F32", "shape": list(shape),
                      "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


# ---- plans ----------------------------------------------------------------------------------

def plan_of(sluice, model):
    with tempfile.TemporaryDirectory() as folder:
        source, plan = pathlib.Path(folder, "m.onnx"), pathlib.Path(folder, "m.plan")
        source.write_bytes(model)
        subprocess.run([sluice, "compile", source, "-o", plan], check=True, capture_output=True)
        return plan.read_bytes()


def main(out, sluice=None):
    out = pathlib.Path(out)
    seeds = {"onnx": dict(single_nodes()) | dict(whole_models()),
             "hf": {kind: encoder(kind) for kind in ("bert", "roberta", "distilbert")}}
    if sluice:
        selected = {"layers", "shapes", "Attention", "Conv", "MaxPool", "Softmax", "LSTM", "Gemm"}
        seeds["plan"] = {name: plan_of(sluice, model)
                         for name, model in seeds["onnx"].items() if name in selected}
    for kind, files in seeds.items():
        folder = out / kind
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        print(f"{folder}: {len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
