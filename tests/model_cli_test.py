"""sluice run, model inspect and bench model from outside, with arrays that NumPy wrote.

Usage: model_cli_test.py SLUICE
"""
import json, os, pathlib, subprocess, sys, tempfile, unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)
import onnx_write as onnx

SLUICE = sys.argv.pop(1)


class ModelCli(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)
        self.addCleanup(self.kept.cleanup)

    def sluice(self, *arguments, code=0, cwd=None):
        done = subprocess.run([SLUICE, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, cwd=cwd, env=os.environ | {"XDG_CACHE_HOME": self.kept.name})
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.said = done.stderr
        return done.stdout if code == 0 else done.stderr

    def model(self, *given, **more):
        path = self.folder / "model.onnx"
        path.write_bytes(onnx.model(*given, **more))
        return path

    def matmul(self):
        """y = relu(x w), [batch, 3] by [3, 2]."""
        return self.model([onnx.node("MatMul", ["x", "w"], ["a"]), onnx.node("Relu", ["a"], ["y"])],
                          [onnx.value("x", "float32", ["batch", 3])],
                          [onnx.value("y", "float32", ["batch", 2])],
                          [onnx.floats("w", [3, 2], [1, -1, 2, 0, 0, 1])])

    def save(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name

    def test_numbers_go_in_and_out_as_numpy_has_them(self):
        x = self.save("x.npy", np.array([[1, 2, 3], [-1, 0, 5]], np.float32))
        out = self.sluice("run", self.matmul(), "--input", f"x={x}", "--output", self.folder / "out")
        np.testing.assert_array_equal(np.load(self.folder / "out" / "y.npy"), [[5, 2], [0, 6]])
        self.assertIn("f32[2, 2]", out)
        self.assertIn("min 0  max 6  mean 3.25", out)

    def test_every_type_passes_through(self):
        for dtype in onnx.TYPES:
            array = np.array([["ä", "bc"]]) if dtype == "str" else np.array([[0, 1, 1]]).astype(dtype)
            for given in (array, np.asfortranarray(array.T), array.astype(array.dtype.newbyteorder())):
                model = self.model([onnx.node("Identity", ["x"], ["y"])],
                                   [onnx.value("x", dtype, ["n", "m"])],
                                   [onnx.value("y", dtype, ["n", "m"])])
                self.sluice("run", model, "--input", self.save("x.npy", given), "--output",
                            f"y={self.folder / 'y.npy'}")
                again = np.load(self.folder / "y.npy")
                np.testing.assert_array_equal(again, given, err_msg=dtype)

    def test_random_inputs_need_nothing_and_json_says_it_all(self):
        report = json.loads(self.sluice("run", self.matmul(), "--shape", "batch=4", "--json"))
        self.assertEqual(report["inputs"][0]["shape"], [4, 3])
        self.assertEqual(report["outputs"][0]["shape"], [4, 2])
        self.assertTrue(report["random_inputs"])
        self.assertGreater(report["run_seconds"], 0)

    def test_errors_say_what_to_do(self):
        model = self.matmul()
        wide = self.save("wide.npy", np.zeros((1, 3)))
        self.assertIn("x.astype('float32')", self.sluice("run", model, "--input", wide, code=2))
        long = self.save("long.npy", np.zeros((1, 4), np.float32))
        error = self.sluice("run", model, "--input", f"x={long}", code=2)
        self.assertIn("  x  f32[batch, 3]", error)
        self.assertIn("'q'", self.sluice("run", model, "--input", "q=x.npy", code=2))
        self.assertIn("batch", self.sluice("run", model, "--shape", "bacth=3", code=2))
        self.assertIn("cannot open", self.sluice("run", self.folder / "none.onnx", code=1))

    def test_a_profile_is_a_trace_that_browsers_read(self):
        trace = self.folder / "trace.json"
        self.sluice("run", self.matmul(), "--profile", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        steps = [e for e in events if e["ph"] == "X"]
        self.assertGreater(len(steps), 0)
        for step in steps:
            self.assertGreaterEqual(step["dur"], 0)
            self.assertTrue(step["args"]["kernel"])
        self.assertEqual({e["tid"] for e in events}, {1})

    def test_the_second_start_uses_the_plan_unless_disabled(self):
        model, plans = self.matmul(), self.folder / "sluice" / "plans"
        run = lambda *more: json.loads(self.sluice("run", model, "--json", *more))
        self.assertFalse(run("--no-plans")["from_plan"])
        self.assertFalse(run("--set", "engine.plans=false")["from_plan"])
        self.assertFalse(plans.exists())
        first, second = run(), run()
        self.assertFalse(first["from_plan"])
        self.assertTrue(second["from_plan"])
        self.assertEqual(first["plan"], second["plan"])
        self.assertEqual(first["outputs"], second["outputs"])
        self.assertGreater(second["load_ms"], 0)
        self.assertEqual(second["device_ms"], 0)
        elsewhere = self.folder / "elsewhere"
        self.assertIn(str(elsewhere), run("--plans", elsewhere)["plan"])
        rows = json.loads(self.sluice("bench", "model", model, "--no-peak", "--seconds", "0.01",
                                      "--json"))["rows"]
        self.assertTrue(rows[0]["from_plan"])

    def test_a_folder_that_takes_no_plans_is_no_reason_to_fail(self):
        (self.folder / "file").write_text("in the way")
        report = json.loads(self.sluice("run", self.matmul(), "--json", "--plans",
                                        self.folder / "file" / "plans"))
        self.assertNotIn("plan", report)
        self.assertIn("no plan was kept", self.said)

    def test_a_compiled_plan_runs_and_says_what_it_is_made_of(self):
        plan = self.folder / "x.plan"
        report = json.loads(self.sluice("compile", self.matmul(), "--batch", "1,4", "-o", plan,
                                        "--precision", "auto", "--json"))
        self.assertEqual(report["precision"], "fp32")
        for shape in report["shapes"]:
            self.assertEqual(sum(shape["kernels"].values()), shape["nodes"])
            self.assertLessEqual(shape["min_bytes"], shape["arena_bytes"])
        self.assertTrue(json.loads(self.sluice("run", plan, "--json"))["from_plan"])
        self.sluice("compile", self.matmul(), "-o", plan, "--precision", "int8", code=1)
        self.assertIn("the CPU computes in fp32: sluice quantize makes", self.said)
        self.sluice("run", self.matmul(), "--precision", "fp16", code=1)
        self.assertIn("the CPU computes in fp32: fp16 needs --device cuda", self.said)

    def test_a_plan_is_known_as_one_by_whatever_name(self):
        plan = self.folder / "compiled"
        self.sluice("compile", self.matmul(), "-o", plan)
        self.assertTrue(json.loads(self.sluice("run", plan, "--json"))["from_plan"])
        for command in (["model", "inspect"], ["compile"], ["quantize", "-o", self.folder / "q"]):
            self.assertIn("it is a plan, not a model", self.sluice(*command, plan, code=2))

    def test_a_gpu_that_is_not_there_is_said_plainly(self):
        done = subprocess.run([SLUICE, "run", self.matmul(), "--device", "cuda"],
                              capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            self.skipTest("there is one")
        self.assertNotIn("cudaError", done.stderr)
        self.assertRegex(done.stderr, "sluice doctor|without CUDA")

    def test_files_of_the_current_folder_need_no_folder_before_their_name(self):
        model = self.matmul().name
        self.sluice("compile", model, cwd=self.folder)
        self.assertTrue((self.folder / "model.plan").exists())
        for arguments in (("run", model), ("run", "model.plan"), ("model", "inspect", model),
                          ("bench", "model", model, "--no-peak", "--seconds", "0.01")):
            self.sluice(*arguments, cwd=self.folder)

    def test_a_path_that_cannot_be_looked_at_is_named(self):
        path = "n" * 300
        for command in (["run"], ["compile"], ["model", "inspect"], ["model", "test"]):
            said = self.sluice(*command, path, code=1)
            self.assertIn(path, said)
            self.assertNotIn("filesystem error", said)

    def test_the_loss_that_is_allowed_is_an_option_of_all_that_take_a_precision(self):
        for command in (["run"], ["compile"], ["bench", "model"]):
            self.assertIn("--max-loss", self.sluice(*command, "--help"))
            for wrong in ("-1", "nan", "much"):
                self.sluice(*command, self.matmul(), f"--max-loss={wrong}", code=2)
                self.assertIn("--max-loss", self.said)
        for loss in ("0", "0.5", "inf"):
            report = json.loads(self.sluice("run", self.matmul(), "--max-loss", loss, "--json"))
            self.assertIsNone(report["precision_report"])  # a CPU computes in fp32

    def test_inspect_counts_parameters_arithmetic_and_memory(self):
        report = json.loads(self.sluice("model", "inspect", self.matmul(), "--shape", "batch=5",
                                        "--json"))
        self.assertEqual(report["inputs"][0]["shape"], ["batch", 3])
        self.assertEqual(report["opsets"], {"ai.onnx": 17})
        self.assertEqual(report["producer"], "tests")
        self.assertEqual(report["parameters"][0]["bytes"], 24)
        self.assertEqual(report["compiled"]["flops"], 2 * 5 * 3 * 2 + 5 * 2)
        self.assertTrue(all(n["device"] == "cpu" for n in report["compiled"]["nodes"]))
        text = self.sluice("model", "inspect", self.matmul())
        for part in ("MatMul", "f32[batch, 3]", "Parameters", "planned"):
            self.assertIn(part, text)

    def test_bench_gives_a_row_for_each_batch(self):
        report = json.loads(self.sluice("bench", "model", self.matmul(), "--batch", "1,4", "--no-peak",
                                        "--seconds", "0.05", "--json"))
        self.assertEqual([row["batch"] for row in report["rows"]], [1, 4])
        for row in report["rows"]:
            self.assertLessEqual(row["p50_seconds"], row["p99_seconds"])
            self.assertAlmostEqual(row["per_second"] * row["p50_seconds"], row["batch"])
        found = json.loads(self.sluice("bench", "model", self.matmul(), "--find-batch", "--no-peak",
                                       "--seconds", "0.02", "--json"))
        self.assertEqual(sum(row["best"] for row in found["rows"]), 1)
        self.sluice("bench", "model", self.matmul(), "--precision", "fp8", "--no-peak", code=1)


if __name__ == "__main__":
    unittest.main()
