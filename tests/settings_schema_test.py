#!/usr/bin/env python3
"""`sluice settings --schema` is a valid JSON Schema, the defaults and the documented
example keep it, and it refuses what the program refuses."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: python3 has no jsonschema (apt install python3-jsonschema)")
    sys.exit(77)

SLUICE = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parent.parent


def sluice(*args, config=None):
    command = [SLUICE, "settings", *args]
    with tempfile.TemporaryDirectory() as folder:
        if config is not None:
            path = pathlib.Path(folder) / "c.json"
            path.write_text(json.dumps(config))
            command += ["--config", str(path)]
        return subprocess.run(command, capture_output=True, text=True, env={"HOME": "/home/x"},
                              timeout=30)


def defaults(schema):
    """What the schema itself says the defaults are."""
    out = {}
    for name, part in schema["properties"].items():
        if "default" in part:
            out[name] = part["default"]
        elif "properties" in part:
            out[name] = defaults(part)
    return out


GOOD = [
    {},
    {"gpu": {"enabled": True, "devices": [0, 1], "memory_allocation": {"scout": 8.0},
             "batch_sizes": {"scout": 64}, "precision": "fp16", "memory_pooling": True}},
    {"autoscaling": [{"metric": "gpu_utilization", "target": 80, "scale_up_cooldown": "5m",
                      "scale_down_cooldown": 600}]},
    {"alerts": [{"name": "gpu-temperature", "threshold": 85}]},
]
BAD = [
    {"gpu": {"enabled": 1}},
    {"gpu": {"enabeld": True}},
    {"gpu": {"precision": "fp61"}},
    {"gpu": {"batch_sizes": {"scout": 0}}},
    {"gpu": {"batch_sizes": {"a b": 1}}},
    {"serve": {"port": 65536}},
    {"serve": {"port": "80"}},
    {"sevre": {}},
    {"autoscaling": {}},
    {"autoscaling": [{"scale_up_cooldown": "5 minutes"}]},
    {"alerts": [{"name": "gpu-temperature", "treshold": 85}]},
]


def main():
    printed = sluice("--schema")
    assert printed.returncode == 0, printed.stderr
    schema = json.loads(printed.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    validator.validate(defaults(schema))
    shown = json.loads(sluice("--json").stdout)
    validator.validate(shown["values"])
    for config in GOOD:
        validator.validate(config)
        loaded = sluice(config=config)
        assert loaded.returncode == 0, (config, loaded.stderr)
    for config in BAD:
        assert not validator.is_valid(config), config
        assert sluice(config=config).returncode == 2, config

    page = (ROOT / "docs" / "configuration.md").read_text()
    examples = re.findall(r"```(toml|json)\n(.*?)```", page, re.S)
    assert examples, "docs/configuration.md shows no example"
    for language, text in examples:
        with tempfile.NamedTemporaryFile("w", suffix="." + language) as file:
            file.write(text)
            file.flush()
            run = subprocess.run([SLUICE, "settings", "--json", "--config", file.name],
                                 capture_output=True, text=True, env={}, timeout=30)
        assert run.returncode == 0, run.stderr
        values = json.loads(run.stdout)["values"]
        validator.validate(values)
    print(f"schema valid; defaults, {len(GOOD)} good, {len(BAD)} bad and "
          f"{len(examples)} documented configurations as expected")


main()
