"""Attacks on `sluice serve`: each once worked, or was tried because it might.
The attacks stand in hostile/attack_SUBJECT.py, one unittest method each; a new route adds its own.
Usage: hostile_test.py SLUICE SUBJECT|all [TEST...]"""
import importlib, pathlib, sys, unittest

SUBJECTS = sorted(p.stem.removeprefix("attack_")
                  for p in (pathlib.Path(__file__).parent / "hostile").glob("attack_*.py"))


def main():
    subject, tests = sys.argv[2], sys.argv[3:]
    if subject not in (*SUBJECTS, "all"):
        sys.exit(f"no attacks on '{subject}'; there are: {', '.join(SUBJECTS)}, all")
    modules = [importlib.import_module("hostile.attack_" + s)
               for s in (SUBJECTS if subject == "all" else [subject])]
    attacks = unittest.TestSuite(
        test for module in modules for case in unittest.defaultTestLoader.loadTestsFromModule(module)
        for test in case if not tests or any(t in test.id() for t in tests))
    if attacks.countTestCases() == 0:
        sys.exit("no attack is named " + " or ".join(tests))
    sys.exit(not unittest.TextTestRunner(verbosity=1).run(attacks).wasSuccessful())


if __name__ == "__main__":
    main()
