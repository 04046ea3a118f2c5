"""Models and inputs that the benchmarks of the engine share."""
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTHS = {"lstm": 64, "mlp": 784}


def model_file(folder, model):
    """Made where it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{model}.onnx"
    if not path.exists():
        subprocess.run([sys.executable, str(ROOT / "tools" / "make_model.py"), model, "-o", str(path)],
                       check=True)
    return str(path)


def inputs_of(model, batch, length):
    random = np.random.default_rng(1)
    if model in ("bert-base", "minilm-l6"):
        real = random.integers(length // 2, length + 1, batch)  # the rest is padding
        real[0] = length
        mask = (np.arange(length) < real[:, None]).astype(np.int64)
        return {"input_ids": random.integers(0, 30522, (batch, length)) * mask,
                "attention_mask": mask, "token_type_ids": np.zeros((batch, length), np.int64)}
    if model in ("resnet50", "mobilenet-v2"):
        return {"pixel_values": random.standard_normal((batch, 3, 224, 224), np.float32)}
    shape = (batch, length, WIDTHS[model]) if length else (batch, WIDTHS[model])
    return {"x": random.standard_normal(shape, np.float32)}


def input_flags(inputs, folder):
    """For the command line, with the arrays as files in `folder`."""
    flags = []
    for name, array in inputs.items():
        path = pathlib.Path(folder) / f"{name}.npy"
        np.save(path, array)
        flags += ["--input", f"{name}={path}"]
    return flags
