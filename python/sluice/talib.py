"""TA-Lib's functions by their names and arguments, computed by Sluice.

    import sluice.talib as talib

    rsi = talib.RSI(close, timeperiod=14)
    upper, middle, lower = talib.BBANDS(close, timeperiod=20)

Arrays of float64 are read and written in place, without a copy; float32 works too and
gives float32. Beyond TA-Lib: arrays of two dimensions (series x time) run as one batch, and
`device` ("auto", "cpu", "gpu") says where. A pandas Series in gives a Series back.
"""
import inspect, sys

import numpy as np

from . import _native

_UNSET = (-2 ** 31, -4e37)  # TA-Lib's marks for "take the default"


# The version whose definitions these are.
__version__ = "0.8.1"
__ta_version__ = b"0.8.1 (Sluice)"

_AVERAGES = {0: "Simple", 1: "Exponential", 2: "Weighted", 3: "Double Exponential",
             4: "Triple Exponential", 5: "Triangular", 6: "Kaufman Adaptive",
             7: "MESA Adaptive", 8: "Triple Generalized Double Exponential"}


class MA_Type:
    """TA-Lib's numbers of averages; `matype` may be SMA, EMA or WMA here."""
    SMA, EMA, WMA, DEMA, TEMA, TRIMA, KAMA, MAMA, T3 = range(9)

    def __class_getitem__(cls, number):
        return _AVERAGES[number] + " Moving Average"


def _array(name, value):
    if _is_series(value):
        value = value.to_numpy()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"Argument '{name}' has incorrect type (expected numpy.ndarray, got "
                        f"{type(value).__name__})")
    if value.dtype.type not in (np.float64, np.float32):
        raise Exception("input array type is not double")
    if value.ndim not in (1, 2):
        raise Exception("input array has wrong dimensions")
    return np.ascontiguousarray(value, value.dtype.newbyteorder("="))


def _is_series(value):
    pandas = sys.modules.get("pandas")  # a Series cannot be there before it
    return pandas is not None and isinstance(value, pandas.Series)


def _arrays(names, given):
    arrays = [_array(name, value) for name, value in zip(names, given)]
    if any(a.ndim != arrays[0].ndim for a in arrays):
        raise Exception("input array has wrong dimensions")
    if any(a.shape != arrays[0].shape for a in arrays):
        raise Exception("input array lengths are different")
    if any(a.dtype != arrays[0].dtype for a in arrays):
        arrays = [a.astype(np.float64) for a in arrays]
    return arrays


def _run(name, values, arrays, count, device):
    shape, dtype = arrays[0].shape, arrays[0].dtype
    outputs = [np.empty(shape, dtype) for _ in range(count)]
    try:
        _native.run(name, values, [a.ctypes.data for a in arrays],
                    [o.ctypes.data for o in outputs], shape[0] if len(shape) == 2 else 1,
                    shape[-1], device or "auto", dtype == np.float32)
    except _native.NativeError as e:
        if e.code != 1:
            raise
        raise Exception(f"TA_{name} function failed with error code 2: Bad Parameter "
                        f"(TA_BAD_PARAM): {e}") from None
    return outputs


def _names_of_inputs(one):
    if one["any_price"]:
        return ["real"]
    return ["real" if one["name"] == "OBV" and name == "close" else name
            for name in one["inputs"]]


def _signature(inputs, parameters):
    plain, keyed = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [inspect.Parameter(name, plain) for name in inputs] +
        [inspect.Parameter(p["name"], plain, default=int(p["default"]) if p["integer"]
                           else p["default"]) for p in parameters] +
        [inspect.Parameter("device", keyed, default=None)])


def _number(parameter, value):
    if value in _UNSET:
        return parameter["default"]
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"Argument '{parameter['name']}' must be a number, not "
                        f"{type(value).__name__}")
    return float(int(value) if parameter["integer"] else value)  # cut off, as TA-Lib's wrapper does


def _function(one):
    name, inputs, parameters = one["name"], _names_of_inputs(one), one["parameters"]
    outputs, signature = one["outputs"], _signature(inputs, parameters)

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = [bound.arguments[i] for i in inputs]
        values = [_number(p, bound.arguments[p["name"]]) for p in parameters]
        found = _run(name, values, _arrays(inputs, given), len(outputs), bound.arguments["device"])
        series = next((g for g in given if _is_series(g)), None)
        if series is not None:
            found = [type(series)(o, index=series.index) for o in found]
        return found[0] if len(found) == 1 else tuple(found)

    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature
    function.__module__ = __name__
    ranges = "".join(f"\n    {p['name']}: {p['help']} ({p['default']:g})" for p in parameters)
    function.__doc__ = (f"{one['summary']}.\n\nInputs: {', '.join(inputs)}"
                        + (f"\nParameters:{ranges}" if ranges else "")
                        + f"\nOutputs: {', '.join(outputs)}")
    return function


def MA(real, timeperiod=30, matype=0, *, device=None):
    """Moving average: SMA, EMA or WMA by `matype`."""
    average = {MA_Type.SMA: "SMA", MA_Type.EMA: "EMA", MA_Type.WMA: "WMA"}.get(matype)
    if average is None:
        raise Exception("TA_MA function failed with error code 2: Bad Parameter (TA_BAD_PARAM): "
                        "matype is 0 (SMA), 1 (EMA) or 2 (WMA)")
    return globals()[average](real, timeperiod, device=device)


def lookback(name, **parameters):
    """Bars before the first output of `name`."""
    one = _by_name().get(name.upper())
    if one is None:
        raise ValueError(f"there is no function {name}; get_functions() lists them")
    unknown = set(parameters) - {p["name"] for p in one["parameters"]}
    if unknown:
        raise TypeError(f"{name} has no parameter {', '.join(sorted(unknown))}")
    return _native.lookback(name, [_number(p, parameters.get(p["name"], p["default"]))
                                   for p in one["parameters"]])


def get_functions():
    """The names of all functions."""
    return [one["name"] for one in _native.indicators()] + ["MA"]


_GROUPS = {"averages": "Overlap Studies", "statistics": "Statistic Functions",
           "momentum": "Momentum Indicators", "trend": "Momentum Indicators",
           "volatility": "Volatility Indicators", "volume": "Volume Indicators",
           "signals": "Signals"}
_OTHER_GROUP = {"BBANDS": "Overlap Studies", "MAX": "Math Operators", "MIN": "Math Operators",
                "VWAP": "Volume Indicators"}


def get_function_groups():
    """The names of all functions by TA-Lib's groups."""
    groups = {}
    for one in _native.indicators():
        group = _OTHER_GROUP.get(one["name"], _GROUPS[one["group"]])
        groups.setdefault(group, []).append(one["name"])
    groups["Overlap Studies"].append("MA")
    return groups


def _by_name():
    return {one["name"]: one for one in _native.indicators()}


globals().update({one["name"]: _function(one) for one in _native.indicators()})
__all__ = [*get_functions(), "MA_Type", "get_functions", "get_function_groups", "lookback"]
