"""Just enough of ONNX's file format for tests to write small models without the onnx package."""
import struct

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
         "str": 8, "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13,
         "complex64": 14, "complex128": 15}


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


class Graph(bytes):
    """A graph as it is written: the body of a node, or of a model."""


def graph(nodes, inputs, outputs, weights=(), name="test"):
    return Graph(b"".join([data(1, n) for n in nodes] + [data(2, name)] +
                          [data(5, w) for w in weights] + [data(11, i) for i in inputs] +
                          [data(12, o) for o in outputs]))


def attribute(name, given):
    """Numbers, texts, lists of integers, graphs."""
    if isinstance(given, Graph):
        field, kind = data(6, given), 5
    elif isinstance(given, str):
        field, kind = data(4, given), 3
    elif isinstance(given, float):
        field, kind = varint(2 << 3 | 5) + struct.pack("<f", given), 1
    elif isinstance(given, list):
        field, kind = b"".join(integer(8, v) for v in given), 7
    else:
        field, kind = integer(3, given), 2
    return data(1, name) + field + integer(20, kind)


def node(op, inputs, outputs, **attributes):
    return b"".join([data(1, i) for i in inputs] + [data(2, o) for o in outputs] +
                    [data(3, outputs[0]), data(4, op)] +
                    [data(5, attribute(k, v)) for k, v in attributes.items()])


def value(name, dtype, shape):
    """Sizes are numbers, or texts for those left open."""
    dims = b"".join(data(1, data(2, d) if isinstance(d, str) else integer(1, d)) for d in shape)
    return data(1, name) + data(2, data(1, integer(1, TYPES[dtype]) + data(2, dims)))


def floats(name, shape, values):
    return (b"".join(integer(1, d) for d in shape) + integer(2, 1) + data(8, name) +
            data(9, struct.pack(f"<{len(values)}f", *values)))


def model(nodes, inputs, outputs, weights=(), opset=17):
    return (integer(1, 8) + data(2, "tests") + data(7, graph(nodes, inputs, outputs, weights)) +
            data(8, data(1, "") + integer(2, opset)))
