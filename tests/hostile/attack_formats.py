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

    def test_a_tensor_whose_bits_wrap_around(self):
        self.refused(self.adder(raw_tensor("w", "int64", [WRAPS], b"12345678")), "w")
        self.refused(self.adder(raw_tensor("w", "float64", [1 << 29, 1 << 29], b"")), "w")

    def test_a_negative_dimension(self):
        self.refused(self.adder(raw_tensor("w", "int64", [(1 << 64) - 1], b"")), "w")

    def test_external_data_shorter_than_its_tensor(self):
        self.write("weights", b"12345678")
        for length in ({}, {"length": "8"}, {"length": str(1 << 63)}):
            entries = {"location": "weights", **length}
            tensor = (onnx.integer(1, WRAPS) + onnx.integer(2, 7) + onnx.data(8, "w") +
                      b"".join(onnx.data(13, onnx.data(1, k) + onnx.data(2, v))
                               for k, v in entries.items()) + onnx.integer(14, 1))
            self.refused(self.adder(tensor), "w")

    def test_safetensors_that_claim_more_than_they_hold(self):
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
    SIDE, PRODUCTS = 1024, 40  # a second of work before the weights are used

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
        products = [onnx.node("MatMul", [f"a{i}" if i else "x", "x"], [f"a{i + 1}"])
                    for i in range(self.PRODUCTS)]
        model = self.write("model.onnx", onnx.model(
            [*products, onnx.node("Add", [f"a{self.PRODUCTS}", "w"], ["y"])],
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

    def product(self):
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
        self.sluice("compile", self.product(), "-o", plan)
        for bad in self.damaged(plan.read_bytes()):
            plan.write_bytes(bad)
            said = self.sluice("run", plan, "--no-plans", code=2)
            self.assertIn(f"{plan}: it is ", said)

    def test_damaged_plans_of_the_cache_are_compiled_again(self):
        model, plans, out = self.product(), self.folder / "plans", self.folder / "y.npy"
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
