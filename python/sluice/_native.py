"""The native library, found and called. SLUICE_LIBRARY names it; else it lies beside this
package (installed) or in build/ of the source tree."""
import ctypes, functools, json, os, pathlib, threading

_ERROR_BYTES = 1024


def _candidates():
    if named := os.environ.get("SLUICE_LIBRARY"):
        return [pathlib.Path(named)]
    here = pathlib.Path(__file__).resolve().parent
    return [here / "libsluice_market.so", here.parent.parent / "build" / "libsluice_market.so"]


@functools.lru_cache(maxsize=None)
def library():
    tried = _candidates()
    for path in tried:
        if path.exists():
            return _declared(ctypes.CDLL(str(path)))
    raise ImportError("libsluice_market.so is not at " + " nor at ".join(map(str, tried)) +
                      "; build it (ninja -C build sluice_bindings) or set SLUICE_LIBRARY")


def _declared(lib):
    text, size, integer = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
    pointer, numbers = ctypes.c_void_p, ctypes.POINTER(ctypes.c_double)
    arrays, error = ctypes.POINTER(ctypes.c_void_p), [text, size]
    lib.sluice_market_open.restype = pointer
    lib.sluice_market_open.argtypes = [text, text, *error]
    lib.sluice_market_indicators.restype = text
    lib.sluice_market_version.restype = text
    lib.sluice_market_lookback.argtypes = [text, numbers, size, ctypes.POINTER(size), *error]
    for name in ("sluice_market_run", "sluice_market_run_float"):
        getattr(lib, name).restype = integer
        getattr(lib, name).argtypes = [pointer, text, numbers, size, arrays, size, arrays, size,
                                       size, size, text, *error]
    lib.sluice_market_request.argtypes = [pointer, text, text, ctypes.POINTER(pointer), *error]
    lib.sluice_market_free.argtypes = [pointer]
    lib.sluice_market_free.restype = None
    return lib


class NativeError(Exception):
    """An error of the library; `code` as in bindings/market.h."""

    def __init__(self, code, reason):
        super().__init__(reason)
        self.code = code


def _checked(code, error):
    if code != 0:
        raise NativeError(code, error.value.decode("utf-8", "replace"))


def _gpu_is_off():
    return os.environ.get("GPU_ENABLED", "").strip().lower() in ("0", "false", "no", "off")


_lock = threading.Lock()
_opened = {}


def _costs():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = pathlib.Path(base) / "sluice"
    return str(folder / "costs.json").encode() if folder.is_dir() else None


def calculator():
    """The one of this process; after a fork the child makes its own."""
    with _lock:
        if os.getpid() not in _opened:
            error = ctypes.create_string_buffer(_ERROR_BYTES)
            device = b"cpu" if _gpu_is_off() else b"auto"
            made = library().sluice_market_open(device, _costs(), error, _ERROR_BYTES)
            if not made:
                raise NativeError(5, error.value.decode("utf-8", "replace"))
            _opened[os.getpid()] = made
        return _opened[os.getpid()]


@functools.lru_cache(maxsize=None)
def indicators():
    return json.loads(library().sluice_market_indicators())


def _numbers(values):
    return (ctypes.c_double * len(values))(*values)


def lookback(name, values):
    bars, error = ctypes.c_size_t(), ctypes.create_string_buffer(_ERROR_BYTES)
    _checked(library().sluice_market_lookback(name.encode(), _numbers(values), len(values),
                                              ctypes.byref(bars), error, _ERROR_BYTES), error)
    return bars.value


def run(name, values, inputs, outputs, series, bars, device="auto", single=False):
    """`inputs` and `outputs`: addresses of arrays that stay alive meanwhile."""
    function = library().sluice_market_run_float if single else library().sluice_market_run
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    _checked(function(calculator(), name.encode(), _numbers(values), len(values),
                      (ctypes.c_void_p * len(inputs))(*inputs), len(inputs),
                      (ctypes.c_void_p * len(outputs))(*outputs), len(outputs), series, bars,
                      device.encode(), error, _ERROR_BYTES), error)


def request(calculation, body):
    """`body` and the result are JSON text."""
    answer, error = ctypes.c_void_p(), ctypes.create_string_buffer(_ERROR_BYTES)
    _checked(library().sluice_market_request(calculator(), calculation.encode(), body.encode(),
                                         ctypes.byref(answer), error, _ERROR_BYTES), error)
    try:
        return ctypes.string_at(answer.value).decode()
    finally:
        library().sluice_market_free(answer)
