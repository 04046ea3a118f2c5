#!/usr/bin/env python3
"""Writes models with random weights in the spelling that torch's exporter gives.

    tools/make_model.py bert-base -o bert-base.onnx
    tools/make_model.py resnet50 -o resnet50.onnx --batch-norm keep
    tools/make_model.py minilm-l6 -o big/model.onnx --external --layer-norm spelled

Needs the Python packages onnx and numpy. The same seed gives the same file.
"""
import argparse
import math
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Net:
    """Nodes and weights, one after the other; values are named by who makes them."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.names = {}

    def name(self, name):
        n = self.names[name] = self.names.get(name, -1) + 1
        return name if n == 0 else f"{name}_{n}"

    def input(self, name, dtype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, name, shape):
        for node in self.nodes:
            node.output[:] = [name if o == value else o for o in node.output]
            node.input[:] = [name if i == value else i for i in node.input]
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, shape))

    def constant(self, array, name="onnx::Constant"):
        name = self.name(name)
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, name, shape, std=0.02, mean=0.0):
        return self.constant(self.random.normal(mean, std, shape).astype(np.float32), name)

    def add(self, op, inputs, where="", outputs=1, **attributes):
        name = self.name(f"{where}/{op}")
        made = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def integer(self, value):
        return self.constant(np.array(value, np.int64))

    def real(self, value):
        return self.constant(np.array(value, np.float32))

    def size(self, x, axis, where):
        """x.size(axis), as the exporter spells it."""
        return self.add("Gather", [self.add("Shape", [x], where), self.integer(axis)], where, axis=0)

    def reshape(self, x, sizes, where):
        """`sizes`: numbers, or values that hold one."""
        parts = [self.ints(s) if isinstance(s, int) else
                 self.add("Unsqueeze", [s, self.ints(0)], where) for s in sizes]
        return self.add("Reshape", [x, self.add("Concat", parts, where, axis=0)], where)

    def linear(self, x, inside, outside, where):
        matrix = self.weight("onnx::MatMul", (inside, outside))
        bias = self.weight(where.strip("/").replace("/", ".") + ".bias", (outside,))
        return self.add("Add", [bias, self.add("MatMul", [x, matrix], where)], where)

    def gemm(self, x, inside, outside, where):
        name = where.strip("/").replace("/", ".")
        return self.add("Gemm", [x, self.weight(name + ".weight", (outside, inside),
                                                1 / math.sqrt(inside)),
                                 self.weight(name + ".bias", (outside,))],
                        where, alpha=1.0, beta=1.0, transB=1)

    def model(self, name):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, producer_name="sluice make_model",
                                 opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


# ---- encoders ----------------------------------------------------------------------


def layer_norm(net, x, width, where, spelled):
    name = where.strip("/").replace("/", ".")
    scale = net.weight(name + ".weight", (width,), 0.05, 1.0)
    bias = net.weight(name + ".bias", (width,))
    if not spelled:
        return net.add("LayerNormalization", [x, scale, bias], where, axis=-1, epsilon=1e-12)
    centred = net.add("Sub", [x, net.add("ReduceMean", [x], where, axes=[-1])], where)
    square = net.add("Pow", [centred, net.real(2)], where)
    variance = net.add("ReduceMean", [square], where, axes=[-1])
    root = net.add("Sqrt", [net.add("Add", [variance, net.real(1e-12)], where)], where)
    normal = net.add("Div", [centred, root], where)
    return net.add("Add", [net.add("Mul", [normal, scale], where), bias], where)


def gelu(net, x, where):
    erf = net.add("Erf", [net.add("Div", [x, net.real(math.sqrt(2))], where)], where)
    grown = net.add("Mul", [x, net.add("Add", [erf, net.real(1)], where)], where)
    return net.add("Mul", [grown, net.real(0.5)], where)


def attention(net, x, mask, hidden, heads, where):
    size = hidden // heads
    own = where + "/self"

    def by_head(part):
        y = net.linear(x, hidden, hidden, f"{own}/{part}")
        y = net.reshape(y, [net.size(y, 0, own), net.size(y, 1, own), heads, size], own)
        return net.add("Transpose", [y], own, perm=[0, 2, 1, 3])

    query, key, value = by_head("query"), by_head("key"), by_head("value")
    key = net.add("Transpose", [key], own, perm=[0, 1, 3, 2])
    scores = net.add("Div", [net.add("MatMul", [query, key], own), net.real(math.sqrt(size))], own)
    shares = net.add("Softmax", [net.add("Add", [scores, mask], own)], own, axis=-1)
    mixed = net.add("Transpose", [net.add("MatMul", [shares, value], own)], own, perm=[0, 2, 1, 3])
    mixed = net.reshape(mixed, [net.size(mixed, 0, own), net.size(mixed, 1, own), hidden], own)
    return net.linear(mixed, hidden, hidden, where + "/output/dense")


def encoder(net, given, hidden, layers, heads, words=30522, places=512):
    layers = given.layers or layers
    spelled = given.layer_norm == "spelled"
    ids, mask, types = (net.input(name, INT64, ["batch", "sequence"])
                        for name in ("input_ids", "attention_mask", "token_type_ids"))
    wide = net.add("Unsqueeze", [net.add("Unsqueeze", [mask, net.ints(1)]), net.ints(2)])
    mask = net.add("Sub", [net.real(1), net.add("Cast", [wide], to=FLOAT)])
    mask = net.add("Mul", [mask, net.real(np.finfo(np.float32).min)])
    at = "/embeddings"
    length = net.add("Unsqueeze", [net.size(ids, 1, at), net.ints(0)], at)
    numbers = net.constant(np.arange(places, dtype=np.int64)[None], "embeddings.position_ids")
    place = net.add("Slice", [numbers, net.ints(0), length, net.ints(1), net.ints(1)], at)
    x = net.add("Gather", [net.weight("embeddings.word_embeddings.weight", (words, hidden)), ids], at)
    t = net.weight("embeddings.token_type_embeddings.weight", (2, hidden))
    x = net.add("Add", [x, net.add("Gather", [t, types], at)], at)
    p = net.weight("embeddings.position_embeddings.weight", (places, hidden))
    x = net.add("Add", [x, net.add("Gather", [p, place], at)], at)
    x = layer_norm(net, x, hidden, at + "/LayerNorm", spelled)
    for i in range(layers):
        at = f"/encoder/layer.{i}"
        attended = attention(net, x, mask, hidden, heads, at + "/attention")
        x = layer_norm(net, net.add("Add", [attended, x], at), hidden,
                       at + "/attention/output/LayerNorm", spelled)
        inner = gelu(net, net.linear(x, hidden, 4 * hidden, at + "/intermediate/dense"),
                     at + "/intermediate")
        down = net.linear(inner, 4 * hidden, hidden, at + "/output/dense")
        x = layer_norm(net, net.add("Add", [down, x], at), hidden, at + "/output/LayerNorm", spelled)
    first = net.add("Gather", [x, net.integer(0)], "/pooler", axis=1)
    pooled = net.add("Tanh", [net.gemm(first, hidden, hidden, "/pooler/dense")], "/pooler")
    net.output(x, "last_hidden_state", ["batch", "sequence", hidden])
    net.output(pooled, "pooler_output", ["batch", hidden])


# ---- pictures ----------------------------------------------------------------------


class Pictures:
    def __init__(self, net, given):
        self.net, self.keep = net, given.batch_norm == "keep"

    def conv(self, x, inside, outside, kernel, where, stride=1, group=1, activation=None):
        net, name = self.net, where.strip("/").replace("/", ".")
        fan = inside // group * kernel * kernel
        weight = net.weight(name + ".weight", (outside, inside // group, kernel, kernel),
                            math.sqrt(2 / fan))
        inputs = [x, weight] if self.keep else [x, weight, net.weight(name + ".bias", (outside,))]
        side = kernel // 2
        x = net.add("Conv", inputs, where, dilations=[1, 1], group=group,
                    kernel_shape=[kernel, kernel], pads=[side] * 4, strides=[stride, stride])
        if self.keep:
            positive = np.abs(net.random.normal(1, 0.1, outside)).astype(np.float32)
            x = net.add("BatchNormalization",
                        [x, net.weight(name + ".bn.weight", (outside,), 0.1, 1.0),
                         net.weight(name + ".bn.bias", (outside,)),
                         net.weight(name + ".bn.running_mean", (outside,)),
                         net.constant(positive, name + ".bn.running_var")],
                        where, epsilon=1e-5, momentum=0.9, training_mode=0)
        if activation == "relu":
            x = net.add("Relu", [x], where)
        if activation == "relu6":
            x = net.add("Clip", [x, net.real(0), net.real(6)], where)
        return x

    def head(self, x, width):
        x = self.net.add("GlobalAveragePool", [x], "/avgpool")
        x = self.net.add("Flatten", [x], axis=1)
        self.net.output(self.net.gemm(x, width, 1000, "/fc"), "logits", ["batch", 1000])


def resnet50(net, given):
    p = Pictures(net, given)
    x = net.input("pixel_values", FLOAT, ["batch", 3, 224, 224])
    x = p.conv(x, 3, 64, 7, "/conv1", stride=2, activation="relu")
    x = net.add("MaxPool", [x], "/maxpool", ceil_mode=0, dilations=[1, 1], kernel_shape=[3, 3],
                pads=[1] * 4, strides=[2, 2])
    inside = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            at = f"/layer{stage + 1}/{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = p.conv(x, inside, width, 1, at + "/conv1", activation="relu")
            y = p.conv(y, width, width, 3, at + "/conv2", stride=stride, activation="relu")
            y = p.conv(y, width, 4 * width, 1, at + "/conv3")
            if block == 0:
                x = p.conv(x, inside, 4 * width, 1, at + "/downsample", stride=stride)
            inside = 4 * width
            x = net.add("Relu", [net.add("Add", [y, x], at)], at)
    p.head(x, inside)


def mobilenet_v2(net, given):
    p = Pictures(net, given)
    x = net.input("pixel_values", FLOAT, ["batch", 3, 224, 224])
    x = p.conv(x, 3, 32, 3, "/features/0", stride=2, activation="relu6")
    inside, number = 32, 1
    for grow, outside, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                          (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            at, step = f"/features/{number}", stride if block == 0 else 1
            y, width = x, grow * inside
            if grow > 1:
                y = p.conv(y, inside, width, 1, at + "/expand", activation="relu6")
            y = p.conv(y, width, width, 3, at + "/depth", stride=step, group=width,
                       activation="relu6")
            y = p.conv(y, width, outside, 1, at + "/project")
            x = net.add("Add", [x, y], at) if step == 1 and inside == outside else y
            inside, number = outside, number + 1
    x = p.conv(x, inside, 1280, 1, f"/features/{number}", activation="relu6")
    p.head(x, 1280)


# ---- others ------------------------------------------------------------------------


def lstm(net, given, inside=64, hidden=256):
    x = net.input("x", FLOAT, ["batch", "sequence", inside])
    x = net.add("Transpose", [x], "/lstm", perm=[1, 0, 2])
    for layer in range(2):
        at, width = f"/lstm/{layer}", inside if layer == 0 else hidden
        weights = [net.weight(f"lstm.{what}_l{layer}", shape, 1 / math.sqrt(hidden))
                   for what, shape in (("w", (1, 4 * hidden, width)), ("r", (1, 4 * hidden, hidden)),
                                       ("b", (1, 8 * hidden)))]
        batch = net.add("Unsqueeze", [net.size(x, 1, at), net.ints(0)], at)
        shape = net.add("Concat", [net.ints(1), batch, net.ints(hidden)], at, axis=0)
        zeros = net.add("ConstantOfShape", [shape], at,
                        value=helper.make_tensor("value", FLOAT, [1], [0.0]))
        y = net.add("LSTM", [x, *weights, "", zeros, zeros], at, outputs=3, hidden_size=hidden)[0]
        x = net.add("Squeeze", [y, net.ints(1)], at)
    last = net.add("Gather", [x, net.integer(-1)], "/last", axis=0)
    net.output(net.gemm(last, hidden, 10, "/fc"), "logits", ["batch", 10])


def mlp(net, given):
    x = net.input("x", FLOAT, ["batch", 784])
    for i, (inside, outside) in enumerate(((784, 512), (512, 512))):
        x = net.add("Relu", [net.gemm(x, inside, outside, f"/layers.{i}")], f"/layers.{i}")
    net.output(net.gemm(x, 512, 10, "/out"), "logits", ["batch", 10])


MODELS = {
    "bert-base": lambda net, given: encoder(net, given, hidden=768, layers=12, heads=12),
    "minilm-l6": lambda net, given: encoder(net, given, hidden=384, layers=6, heads=12),
    "resnet50": resnet50,
    "mobilenet-v2": mobilenet_v2,
    "lstm": lstm,
    "mlp": mlp,
}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", choices=MODELS)
    options.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--layers", type=int, help="of an encoder, other than the model has")
    options.add_argument("--layer-norm", choices=("op", "spelled"), default="op")
    options.add_argument("--batch-norm", choices=("fold", "keep"), default="fold")
    options.add_argument("--external", action="store_true", help="weights in a file beside it")
    given = options.parse_args()
    net = Net(given.seed)
    MODELS[given.model](net, given)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    data = given.output.name + ".data"
    (given.output.parent / data).unlink(missing_ok=True)
    onnx.save_model(net.model(given.model), str(given.output), save_as_external_data=given.external,
                    all_tensors_to_one_file=True, location=data if given.external else None)


main()
