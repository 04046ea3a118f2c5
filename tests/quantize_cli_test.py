"""sluice quantize from outside: what it writes, and whether ONNX Runtime, where it is installed,
makes the same of it.

Usage: quantize_cli_test.py SLUICE
"""
import json, pathlib, subprocess, sys, tempfile, unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)
try:
    import onnxruntime
except ImportError:
    onnxruntime = None
import onnx_write as onnx

SLUICE = sys.argv.pop(1)


class Quantize(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(1)  # the same models whatever other tests ran
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)
        self.addCleanup(self.kept.cleanup)
        for i in range(3):
            (self.folder / "data" / str(i)).mkdir(parents=True)
            np.save(self.folder / "data" / str(i) / "x.npy",
                    self.random.normal(size=(4, 3, 8, 8)).astype(np.float32))

    def sluice(self, *arguments, code=0):
        done = subprocess.run([SLUICE, *map(str, arguments)], capture_output=True, text=True,
                              timeout=100)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout if code == 0 else done.stderr

    def model(self):
        """A convolution, an activation, a mean and a MatMul: [batch, 3, 8, 8] to [batch, 10]."""
        def weights(name, shape):
            values = self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
            return onnx.floats(name, list(shape), values.astype(np.float32).ravel().tolist())
        nodes = [onnx.node("Conv", ["x", "w1", "b1"], ["a"]), onnx.node("Relu", ["a"], ["b"]),
                 onnx.node("GlobalAveragePool", ["b"], ["c"]), onnx.node("Flatten", ["c"], ["d"]),
                 onnx.node("Gemm", ["d", "w2"], ["y"], transB=1)]
        path = self.folder / "model.onnx"
        path.write_bytes(onnx.model(nodes, [onnx.value("x", "float32", ["batch", 3, 8, 8])],
                                    [onnx.value("y", "float32", ["batch", 10])],
                                    [weights("w1", (32, 3, 3, 3)), weights("b1", (32,)),
                                     weights("w2", (10, 32))]))
        return path

    def quantize(self, *flags, code=0):
        out = self.folder / "small.onnx"
        said = self.sluice("quantize", self.model(), "-o", out, "--seconds", 0, "--json", *flags,
                           code=code)
        return out, said

    KINDS = ([], ["--activations", "i8"], ["--method", "entropy"], ["--method", "percentile"],
             ["--precision", "fp8"], ["--weights", "int8"], ["--weights", "int4", "--block", 16])

    def test_every_kind_is_written_and_loses_little(self):
        for kind in self.KINDS:
            with self.subTest(kind=kind):
                out, said = self.quantize("--calibrate", self.folder / "data", *kind)
                report = json.loads(said)
                self.assertTrue(report["written"])
                self.assertEqual(report["samples"], 3)
                self.assertEqual(report["nodes"], 2)
                self.assertGreater(report["loss"], 0)
                self.assertLess(report["loss"], 0.1)
                self.assertGreater(report["weight_bytes_before"], 2.4 * report["weight_bytes"])
                self.assertIn("y", self.sluice("run", out))

    @unittest.skipIf(onnxruntime is None, "ONNX Runtime is not installed")
    def test_onnx_runtime_makes_the_same_of_every_kind(self):
        x = np.load(self.folder / "data" / "0" / "x.npy")
        np.save(self.folder / "x.npy", x)
        for kind in self.KINDS:
            with self.subTest(kind=kind):
                out, _ = self.quantize("--calibrate", self.folder / "data", *kind)
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 3
                peer = onnxruntime.InferenceSession(out, options, ["CPUExecutionProvider"])
                want = peer.run(None, {"x": x})[0]
                self.sluice("run", out, "--input", self.folder / "x.npy", "--output",
                            f"y={self.folder / 'y.npy'}")
                got = np.load(self.folder / "y.npy")
                # A step that is rounded the other way is a part in a hundred.
                off = np.linalg.norm(got - want) / np.linalg.norm(want)
                self.assertLess(off, 0.01)

    def test_a_loss_beyond_the_limit_writes_nothing_and_says_what_to_try(self):
        out, error = self.quantize("--calibrate", self.folder / "data", "--max-loss", 1e-6, code=1)
        self.assertFalse(out.exists())
        self.assertIn("--max-loss is 1e-06", error)
        self.assertIn("--method entropy", error)

    def test_missing_data_is_refused(self):
        _, error = self.quantize(code=2)
        self.assertIn("--calibrate", error)
        self.assertIn("x  f32[batch, 3, 8, 8]", error)
        _, error = self.quantize("--calibrate", self.folder / "none", code=1)
        self.assertIn("no such file", error)
        (self.folder / "empty").mkdir()
        _, error = self.quantize("--calibrate", self.folder / "empty", code=2)
        self.assertIn("x.npy", error)

    def test_random_data_is_enough_to_try_it_out(self):
        _, said = self.quantize("--random", 2, "--shape", "batch=3")
        self.assertTrue(json.loads(said)["random_data"])

    def test_help_has_examples(self):
        self.assertIn("sluice quantize model.onnx -o int8.onnx --calibrate",
                      self.sluice("quantize", "--help"))

    def test_people_read_size_and_speed(self):
        said = self.sluice("quantize", self.model(), "-o", self.folder / "small.onnx",
                           "--calibrate", self.folder / "data", "--seconds", 0.1)
        self.assertRegex(said, r"Weights +\S+ \w+ -> ")
        self.assertIn("as fast) on this CPU", said)


unittest.main()
