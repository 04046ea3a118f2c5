"""Which sizes in bytes and which long files tools/check_tree.py refuses, and which includes of public
headers tools/check_layers.py does. Usage: tree_rules_test.py CHECK_TREE"""
import pathlib, subprocess, sys, tempfile, unittest

CHECK_TREE = sys.argv.pop(1)
CHECK_LAYERS = pathlib.Path(CHECK_TREE).with_name("check_layers.py")
BY_HAND = """
return (static_cast<std::size_t>(count) * static_cast<std::size_t>(bits(type)) + 7) / 8;
return static_cast<std::size_t>(shape.size()) * sluice::bytes(dtype);
const auto size = static_cast<std::size_t>(rows * n) * bytes(dtype);
return context.sample(slot, count * bytes(fusion.dtype), fusion.dtype);
const std::size_t width = bytes(entry.dtype); if (count * width != have) refuse();
std::uint64_t bytes = sluice::bytes(value.dtype); bytes *= dim;
const int w = bits(t.dtype()); std::string s(static_cast<std::size_t>(t.size()) * static_cast<std::size_t>(w));
return static_cast<std::size_t>(values()) * sizeof(float);
width = header.element_bytes(); fits = count * width == have;
"""
FINE = """
const std::size_t size = byte_size(shape, dtype);
std::copy_n(static_cast<const std::byte*>(data) + static_cast<std::size_t>(i) * width, width, to);
const std::size_t width = bytes(dtype); std::memcpy(to + i * width, &list[i], width);
return b < 8 * sizeof(T) ? a : T(0);
const void* const bytes = tensor.bytes(); total += tensor.bytes();
return bytes(a) == bytes(b) ? 3 : -1;
"""


class TreeRules(unittest.TestCase):
    def said_of(self, line, place):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / place
            file.parent.mkdir(parents=True)
            file.write_text(line + "\n")
            return subprocess.run([sys.executable, CHECK_TREE, folder], capture_output=True,
                                  text=True, check=False).stdout

    def test_sizes_multiplied_by_hand_are_refused_where_tensors_are(self):
        for line in BY_HAND.strip().splitlines():
            for place in ("src/formats/x.cc", "src/engine/x.cc", "src/serve/x.cc"):
                self.assertIn("x.cc:1: sizes in bytes", self.said_of(line, place), line)
            self.assertNotIn("sizes in bytes", self.said_of(line, "src/engine/x_test.cc"), line)

    def test_offsets_and_comparisons_are_not(self):
        for line in FINE.strip().splitlines():
            self.assertNotIn("sizes in bytes", self.said_of(line, "src/engine/x.cc"), line)

    def layers_of(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, includes in files.items():
                file = pathlib.Path(folder, "src", name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("".join(f'#include "{other}"\n' for other in includes))
            pathlib.Path(folder, "src/LAYERS").write_text("engine\nkernels\n")
            return subprocess.run([sys.executable, CHECK_LAYERS, folder], capture_output=True,
                                  text=True, check=False)

    def test_public_headers_reach_no_backend(self):
        files = {"engine/open.h": ["engine/plan/plan.h"], "engine/plan/plan.h": ["kernels/gemm.h"],
                 "kernels/gemm.h": []}
        said = self.layers_of(files)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("kernels/gemm.h <- engine/plan/plan.h <- engine/open.h", said.stdout)
        files["engine/open.h"] = []  # plan.h itself is not public
        self.assertEqual(self.layers_of(files).returncode, 0)

    def test_long_files_are_refused_unless_listed(self):
        cases = {"src/base/x.cc": 400, "src/base/x.h": 400, "src/base/x_test.cc": 500,
                 "src/base/x_for_tests.h": 500, "tests/fuzz/x.cc": 500, "src/broker/broker.cc": 500}
        for place, limit in cases.items():
            self.assertNotIn("lines", self.said_of("int x;\n" * (limit - 1), place), place)
            self.assertIn(f"{place}: {limit + 1} lines, more than {limit}",
                          self.said_of("int x;\n" * limit, place), place)


if __name__ == "__main__":
    unittest.main()
