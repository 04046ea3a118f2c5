"""The variables of leases."""
import os
import threading

from ._client import SluiceError

# Those that the server's broker gives (env_for); src/cli/lease/lease_report.cc has the same list.
# A false server would run code of its own (LD_PRELOAD) with the rights of this process.
_OF_A_LEASE = frozenset((
    "CUDA_DEVICE_ORDER", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_VISIBLE_DEVICES",
    "GPU_MEMORY_FRACTION", "SLUICE_GPU_BUS", "SLUICE_GPU_MEMORY_BYTES", "SLUICE_LEASE_ID"))


def variables_of(answer):
    """Returns the variables of a server's answer. Raises SluiceError for one that a lease does not
    set, and for a value that no variable can have."""
    variables = answer.get("env", {})
    if not isinstance(variables, dict):
        raise SluiceError("the server answered with an env that is not an object")
    for name, value in variables.items():
        if name not in _OF_A_LEASE:
            raise SluiceError("the server answered with a variable that a lease does not set: "
                              + _printable(name))
        if not isinstance(value, str) or "\0" in value:
            raise SluiceError(f"the server answered with a value of {name} that no variable can have")
    return variables


def _printable(text):
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Environment:
    """The variables of leases in os.environ. With several leases those of the newest are set;
    after the last one the previous values are restored."""

    def __init__(self):
        self._lock = threading.Lock()
        self._before = {}
        self._put = []  # (lease, its variables), the newest last

    def put(self, lease, variables):
        with self._lock:
            for name in variables:
                self._before.setdefault(name, os.environ.get(name))
            self._put.append((lease, dict(variables)))
            os.environ.update(variables)

    def take_back(self, lease):
        with self._lock:
            names = [name for who, variables in self._put if who is lease for name in variables]
            self._put = [(who, variables) for who, variables in self._put if who is not lease]
            for name in names:
                self._settle(name)

    def _settle(self, name):
        values = [variables[name] for _, variables in self._put if name in variables]
        value = values[-1] if values else self._before.pop(name, None)
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
