"""Damaged and lying files: models, plans, arrays. Each must be refused by name, with exit code 2
and no crash; what a file claims must cost nothing."""
import contextlib, json, os, pathlib, struct, subprocess, sys, tempfile, time, unittest

import onnx_write as onnx
from hostile.case import within

SLUICE = sys.argv[1]
WRAPS = (1 << 58) + 1  # of 64 bits each: 64 bits more than 2^64


def raw_tensor(name, dtype, shape, raw):
    return (b"".join(onnx.integer(1, d) for d in shape) + onnx.integer(2, onnx.TYPES[dtype]) +
            onnx.data(8, name) + onnx.data(9, raw))


def safetensors(entries, data):
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + data


class FileCase(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def start(self, *arguments, **more):
        return subprocess.Popen([SLUICE, *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")},
                                **more)

    def sluice(self, *arguments, code=0):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=within(30))
        self.assertEqual(process.returncode, code, err + out)
        return out if code == 0 else err

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def adder(self, weight, dtype="int64", shape=(1,)):
        """y = x + w."""
        return self.write("model.onnx", onnx.model(
            [onnx.node("Add", ["x", "w"], ["y"])], [onnx.value("x", dtype, shape)],
            [onnx.value("y", dtype, ["n"])], [weight]))


class SizesThatLie(FileCase):
    def refused(self, path, name):
        for command in (("run",), ("model", "inspect"), ("compile", "-o", self.folder / "x.plan")):
            said = self.sluice(*command, path, code=2)
            self.assertIn(f"tensor '{name}'", said)

    def test_a_tensor_whose_bits_wrap_around_is_refused(self):
        self.refused(self.adder(raw_tensor("w", "int64", [WRAPS], b"12345678")), "w")
        self.refused(self.adder(raw_tensor("w", "float64", [1 << 29, 1 << 29], b"")), "w")

    def test_a_negative_dimension_is_refused(self):
        self.refused(self.adder(raw_tensor("w", "int64", [(1 << 64) - 1], b"")), "w")

    def test_external_data_shorter_than_its_tensor_is_refused(self):
        self.write("weights", b"12345678")
        for length in ({}, {"length": "8"}, {"length": str(1 << 63)}):
            entries = {"location": "weights", **length}
            tensor = (onnx.integer(1, WRAPS) + onnx.integer(2, 7) + onnx.data(8, "w") +
                      b"".join(onnx.data(13, onnx.data(1, k) + onnx.data(2, v))
                               for k, v in entries.items()) + onnx.integer(14, 1))
            self.refused(self.adder(tensor), "w")

    def test_safetensors_that_claim_more_than_they_hold_are_refused(self):
        self.write("bert/config.json", json.dumps({
            "model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1,
            "num_attention_heads": 1, "intermediate_size": 4, "max_position_embeddings": 4,
            "vocab_size": 4}).encode())
        for dtype, shape in (("I64", [WRAPS]), ("F32", [1 << 32, 1 << 32]), ("F32", [3])):
            self.write("bert/model.safetensors", safetensors(
                {"e": {"dtype": dtype, "shape": shape, "data_offsets": [0, 8]}}, b"12345678"))
            self.refused(self.folder / "bert", "e")

    def test_an_array_that_claims_more_than_it_holds(self):
        model = self.adder(raw_tensor("w", "int64", [1], b"12345678"))
        for shape in (f"({WRAPS},)", "(2305843009213693953,)", "(-1,)"):
            text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
            array = self.write("x.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text +
                               b"12345678")
            self.assertIn("x.npy", self.sluice("run", model, "--input", f"x={array}", code=2))


def external(name, shape, location):
    entry = onnx.data(1, "location") + onnx.data(2, location)
    return (b"".join(onnx.integer(1, d) for d in shape) + onnx.integer(2, 1) + onnx.data(8, name) +
            onnx.data(13, entry) + onnx.integer(14, 1))


def floats_of(value, count):
    return struct.pack("<f", value) * count


def array(shape, data):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data


class FilesInUse(FileCase):
    SIDE, MATMULS = 1024, 40  # a second of work before the weights are used

    def wait_for_use(self, process, file):
        """Until the process has the file mapped or open."""
        end = time.monotonic() + within(10)
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):
                if str(file) in pathlib.Path(f"/proc/{process.pid}/maps").read_text():
                    return
            time.sleep(0.002)
        self.fail(f"{file} is not in use: {process.poll()}")

    def used_while(self, change):
        """y = x x ... x + w, with x of zeros and w of ones. The weights change after they were
        mapped, before they are needed."""
        side, count = self.SIDE, self.SIDE ** 2
        ones = floats_of(1, count)
        weights, out = self.folder / "weights", self.folder / "y.npy"
        matmuls = [onnx.node("MatMul", [f"a{i}" if i else "x", "x"], [f"a{i + 1}"])
                    for i in range(self.MATMULS)]
        model = self.write("model.onnx", onnx.model(
            [*matmuls, onnx.node("Add", [f"a{self.MATMULS}", "w"], ["y"])],
            [onnx.value("x", "float32", [side, side])], [onnx.value("y", "float32", [side, side])],
            [external("w", [side, side], "weights")]))
        zeros = self.write("x.npy", array(f"({side}, {side})", bytes(4 * count)))
        codes = []
        for plans in ("--no-plans", f"--plans={self.folder / 'plans'}"):
            for pause in (0, 0.2):  # while it is read, and later
                weights.write_bytes(ones)
                process = self.start("run", model, "--threads", 1, plans, "--input", f"x={zeros}",
                                     "--output", f"y={out}")
                self.wait_for_use(process, weights)
                time.sleep(within(pause))
                self.assertIsNone(process.poll(), "it ended before the weights were changed")
                change(weights)
                said = "".join(process.communicate(timeout=within(60)))
                codes.append(process.returncode)
                self.assertIn(process.returncode, (0, 1), said)  # 1: changed while it was read
                if process.returncode == 0:
                    self.assertTrue(out.read_bytes()[-4 * count:] == ones, "weights are mixed")
        self.assertIn(0, codes, "no run went on with what it was opened with")

    def test_weights_truncated_while_a_model_runs(self):
        self.used_while(lambda file: os.truncate(file, 0))

    def test_weights_overwritten_while_a_model_runs(self):
        self.used_while(lambda file: file.write_bytes(floats_of(2, self.SIDE ** 2)))


class Plans(FileCase):
    def results(self, model, count):
        zeros = self.write("x.npy", array(f"({count},)", bytes(4 * count)))
        out = self.folder / "y.npy"
        self.sluice("run", model, "--input", f"x={zeros}", "--output", f"y={out}")
        return out.read_bytes()[-4 * count:]

    def test_replaced_weights_of_equal_size_and_time_do_not_run_as_the_old_ones(self):
        count = 50_000
        for name in ("w.onnx_data", "weights"):
            weights = self.write(name, floats_of(1, count))
            os.utime(weights, (1e9, 1e9))
            model = self.adder(external("w", [count], name), "float32", [count])
            for value in (1, 2):
                self.write(name, floats_of(value, count))
                os.utime(weights, (1e9, 1e9))
                self.assertTrue(self.results(model, count) == floats_of(value, count), name)

    def matmul(self):
        weights = onnx.floats("w", [64, 48], [i % 7 - 3.0 for i in range(64 * 48)])
        return self.write("model.onnx", onnx.model(
            [onnx.node("MatMul", ["x", "w"], ["y"])], [onnx.value("x", "float32", [4, 64])],
            [onnx.value("y", "float32", [4, 48])], [weights]))

    def damaged(self, good):
        for i in range(12):
            at = len(good) * i // 12
            yield good[:at]
            yield good[:at] + bytes([good[at] ^ (1 << i % 8)]) + good[at + 1:]

    def test_damaged_plans_are_refused_by_name(self):
        plan = self.folder / "model.plan"
        self.sluice("compile", self.matmul(), "-o", plan)
        for bad in self.damaged(plan.read_bytes()):
            plan.write_bytes(bad)
            said = self.sluice("run", plan, "--no-plans", code=2)
            self.assertIn(f"{plan}: it is ", said)

    def test_damaged_plans_of_the_cache_are_compiled_again(self):
        model, plans, out = self.matmul(), self.folder / "plans", self.folder / "y.npy"
        ones = self.write("x.npy", array("(4, 64)", floats_of(1, 4 * 64)))
        run = ("run", model, "--plans", plans, "--input", f"x={ones}", "--output", f"y={out}",
               "--json")
        self.sluice(*run)
        right = out.read_bytes()
        (plan,) = plans.iterdir()
        for bad in self.damaged(plan.read_bytes()):
            plan.write_bytes(bad)
            out.unlink()
            self.assertFalse(json.loads(self.sluice(*run))["from_plan"])
            self.assertTrue(out.read_bytes() == right)
            self.assertTrue(json.loads(self.sluice(*run))["from_plan"])


def sluice_node(op, inputs, outputs, **attributes):
    return onnx.node(op, inputs, outputs, **attributes) + onnx.data(7, "sluice")


class HostileOperators(FileCase):
    """Small models whose attributes lie, or ask for work and memory without end."""

    def model(self, nodes, inputs, outputs, weights=()):
        opsets = b"".join(onnx.data(8, onnx.data(1, domain) + onnx.integer(2, version))
                          for domain, version in (("", 21), ("sluice", 1), ("f", 1)))
        graph = onnx.graph(nodes, [onnx.value(*i) for i in inputs],
                           [onnx.data(1, name) + onnx.data(2, onnx.data(1, onnx.integer(
                               1, onnx.TYPES[dtype]))) for name, dtype in outputs], weights)
        return onnx.integer(1, 10) + opsets + onnx.data(7, graph)

    def ends(self, content, *commands, say=""):
        """Refused by words, or done; neither crashes nor goes on and on."""
        path = self.write("model.onnx", content)
        for command in commands:
            process = self.start(*command[:2], path, *command[2:])
            self.addCleanup(process.kill)
            out, err = process.communicate(timeout=within(20))
            self.assertIn(process.returncode, (0, 1, 2), (command, process.returncode, err))
            self.assertNotIn("bad_alloc", err)
            self.assertIn(say, err + out)

    RUN = ("run", "--device=cpu", "--no-plans")
    INSPECT = ("model", "inspect")

    def whole(self, name, values, shape=None):
        raw = struct.pack(f"<{len(values)}q", *values)
        return raw_tensor(name, "int64", [len(values)] if shape is None else shape, raw)

    def test_offsets_of_sequences_that_wrap_around_are_refused(self):
        node = sluice_node("Attention", ["q", "q", "q", "", "o"], ["y"], heads=1, max_seqlen=10**6)
        self.ends(self.model([node], [("q", "float32", [1, 1, 1000])], [("y", "float32")],
                             [self.whole("o", [2**63 - 1, -2**63])]),
                  self.RUN, say="a sequence from")

    def test_heads_of_nothing_end(self):
        node = sluice_node("Attention", ["q", "q", "q"], ["y"], heads=2**62)
        self.ends(self.model([node], [("q", "float32", [1, 1, 0])], [("y", "float32")]), self.RUN)

    def test_scales_of_blocks_without_end_show_no_memory(self):
        for op, dtype in (("DequantizeLinear", "int8"), ("QuantizeLinear", "float32")):
            node = onnx.node(op, ["x", "s"], ["y"], axis=0, block_size=2**63 - 1)
            self.ends(self.model([node], [("x", dtype, [4, 1000])], [("y", "float32")],
                                 [raw_tensor("s", "float32", [0, 1000], b"")]),
                      self.RUN, say="scales of shape")

    def test_functions_that_double_are_refused(self):
        def function(name, nodes):
            return onnx.data(25, onnx.data(1, name) + onnx.data(10, "f") + onnx.data(4, "x") +
                             onnx.data(5, "y") + b"".join(onnx.data(7, n) for n in nodes) +
                             b"".join(onnx.data(9, onnx.data(1, d) + onnx.integer(2, v))
                                      for d, v in (("", 21), ("f", 1))))

        def call(op, source, target):
            return onnx.node(op, [source], [target]) + onnx.data(7, "f")

        for depth, leaf in ((25, onnx.node("Relu", ["x"], ["y"])),
                            (20, onnx.node("Relu", ["x"], ["y"], junk="z" * 200_000))):
            content = self.model([call(f"F{depth}", "x", "y")], [("x", "float32", [1])],
                                 [("y", "float32")]) + function("F0", [leaf])
            for i in range(1, depth + 1):
                content += function(f"F{i}", [call(f"F{i - 1}", "x", "a"),
                                              call(f"F{i - 1}", "a", "y")])
            self.ends(content, self.INSPECT, say="functions make more than")

    def test_type_detection_does_no_unbounded_work(self):
        dft = onnx.node("DFT", ["x", "n"], ["y"])
        self.ends(self.model([dft], [("x", "float32", [1, 1, 1])], [("y", "float32")],
                             [self.whole("n", [268435399], [])]), self.INSPECT)
        einsum = onnx.node("Einsum", ["x", "x"], ["y"], equation="i,j->")
        self.ends(self.model([einsum], [("x", "float32", [10**6])], [("y", "float32")]),
                  self.INSPECT)

    def test_models_to_quantize_that_leave_out_inputs(self):
        x, y = onnx.value("x", "float32", [1, 4, 4, 4]), onnx.value("y", "float32", ["n"])
        quantize = ("quantize", "--weights=int8", "-o", self.folder / "q.onnx")
        weights = [onnx.floats("w", [4, 4], range(16)), onnx.floats("c", [4], range(4))]
        norm = onnx.node("BatchNormalization", ["a", "c", "c", "c", "c"], ["y"])
        for nodes in ([onnx.node("Gather", ["", "x"], ["y"])],
                      [onnx.node("MatMul", ["x", ""], ["y"])],
                      [onnx.node("Gemm", ["x", "c"], ["y"])],
                      [onnx.node("Gemm", ["", "w"], ["y"])],
                      [onnx.node("Conv", ["x", "c"], ["y"])],
                      [onnx.node("Conv", ["x"], ["a"]), norm],
                      [onnx.node("Conv", ["x", ""], ["a"]), norm],
                      [onnx.node("Squeeze", ["x"], ["y"], axes="1")]):
            for more in ((), (onnx.node("MatMul", ["x", "w"], ["z"]),)):
                self.ends(onnx.model([*nodes, *more], [x], [y], weights, opset=11), quantize)

    def test_a_fifo_in_the_place_of_a_file(self):
        folder = self.folder / "hf"
        folder.mkdir()
        os.mkfifo(folder / "model.safetensors")
        (folder / "config.json").write_text('{"model_type": "bert"}')
        os.mkfifo(self.folder / "sluice.toml")
        for command in (("run", folder), ("model", "inspect", folder),
                        ("serve", "--config", self.folder / "sluice.toml"),
                        ("memory", "replay", self.folder / "sluice.toml")):
            process = self.start(*command)
            self.addCleanup(process.kill)
            _, err = process.communicate(timeout=within(20))
            self.assertIn(process.returncode, (1, 2), (command, err))
