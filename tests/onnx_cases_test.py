"""ONNX's own node tests through `sluice model test`: how many pass is printed, and must not fall.

Usage: onnx_cases_test.py SLUICE DATA_FOLDER RATES_FILE

The rates also go to RATES_FILE, which ./test prints at its end.
"""
import json, pathlib, subprocess, sys

sluice, data = sys.argv[1], pathlib.Path(sys.argv[2])
ARCHIVES = {"node-tests.tar.xz": 0.99, "other-tests.tar.xz": 0.97, "light/light-models.tar.xz": 1.0}
# What a generator drew when the cases were written: another one draws other values.
RANDOM = {"test_bernoulli_double", "test_bernoulli_double_expanded", "test_bernoulli_seed",
          "test_bernoulli_seed_expanded"}
# The expected values hold the rounding of a float transform, 1.9e-7 where the answer is 0.
ROUNDED = {"test_dft_inverse", "test_dft_inverse_opset19"}

if not (data / "onnx").is_dir():
    print(f"skipped: the ONNX cases are not at {data / 'onnx'}")
    sys.exit(77)

bad, rates = [], []
for name, least in ARCHIVES.items():
    done = subprocess.run([sluice, "model", "test", str(data / "onnx" / name), "--json"],
                          capture_output=True, text=True)
    report = json.loads(done.stdout)
    share = report["passed"] / report["total"]
    rates.append(f"{name}: {report['passed']} of {report['total']} passed ({100 * share:.1f} %), "
                 f"{report['failed']} failed, {report['unsupported']} unsupported")
    for case in report["cases"]:
        if case["status"] == "failed" and case["name"] not in RANDOM | ROUNDED:
            bad.append(f"{name}: {case['name']}: {case['reason']}")
    if share < least:
        bad.append(f"{name}: fewer than {100 * least:.0f} % passed")
print("\n".join(rates + bad))
pathlib.Path(sys.argv[3]).write_text("".join(f"ONNX {line}\n" for line in rates))
sys.exit(1 if bad else 0)
