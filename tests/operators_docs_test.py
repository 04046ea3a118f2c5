"""docs/operators.md is what `sluice model operators --markdown` prints.

Usage: operators_docs_test.py SLUICE PAGE

A build without CUDA does not know what CUDA runs: then that column and its count are not compared.
"""
import pathlib, re, subprocess, sys

sluice, page = sys.argv[1], pathlib.Path(sys.argv[2]).read_text()
printed = subprocess.run([sluice, "model", "operators", "--markdown"], check=True,
                         capture_output=True, text=True).stdout


def without_cuda(text):
    text = re.sub(r", \d+ of them on CUDA", "", text)
    return re.sub(r"\| (yes|no|unknown) \|$", "|", text, flags=re.MULTILINE)


if "| unknown |" in printed:
    printed, page = without_cuda(printed), without_cuda(page)
if printed != page:
    sys.exit("docs/operators.md is not what the program says; run: "
             "build/sluice model operators --markdown > docs/operators.md")
