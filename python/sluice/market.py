"""Options, risk, portfolios, simulation and backtests. Fields are those of the HTTP routes
(docs/market.md); arrays may be NumPy's, pandas Series and DataFrames or plain lists.

    from sluice import market

    market.option(spot=100, strike=[90, 100, 110], t=0.5, rate=0.03, vol=0.2)["delta"]
    market.risk(prices=frame)["series"]["AAPL"]["sharpe"]
    market.portfolio(prices=frame, goal="max_sharpe", upper=0.2)["weights"]
    market.montecarlo(payoff="asian", strike=100, steps=12)["price"]
    market.backtest(close=close, parameters={"fast": "5:50:5", "slow": "20:200:10"})
"""
import json, math

from . import _native

__all__ = ["MarketError", "backtest", "indicator", "montecarlo", "option", "portfolio", "risk"]


class MarketError(ValueError):
    """A field is invalid; the message names it."""


def _counts_nanoseconds(value):
    """NumPy lists such times as integers."""
    return str(getattr(value, "dtype", "")) == "datetime64[ns]" and hasattr(value, "astype")


def _plain(value):
    if hasattr(value, "columns") and hasattr(value, "to_dict"):  # a DataFrame
        return {str(name): _plain(value[name]) for name in value.columns}
    if hasattr(value, "isoformat"):  # dates, pandas' too
        return value.isoformat()
    if hasattr(value, "tolist"):  # NumPy, pandas
        return _plain(value.astype("datetime64[s]").tolist() if _counts_nanoseconds(value)
                      else value.tolist())
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _request(calculation, fields):
    body = json.dumps({name: _plain(v) for name, v in fields.items() if v is not None})
    try:
        return json.loads(_native.request(calculation, body))
    except _native.NativeError as e:
        if e.code in (1, 2):
            raise MarketError(str(e)) from None
        raise


def indicator(name, **fields):
    """Any indicator: close=..., high=..., timeperiod=..., or series={"AAPL": [...]}."""
    return _request(name, fields)


def option(**fields):
    """Prices and Greeks: spot, strike, t, rate, div_yield, vol, kind, model."""
    return _request("option", fields)


def risk(**fields):
    """Return, volatility, drawdown, VaR and CVaR of prices or returns."""
    return _request("risk", fields)


def portfolio(**fields):
    """Weights for a goal, from prices, returns, or mean and covariance."""
    return _request("portfolio", fields)


def montecarlo(**fields):
    """A path-dependent option by simulation, with its standard error."""
    return _request("montecarlo", fields)


def backtest(**fields):
    """A strategy on prices: one set of parameters or a sweep; html=True adds the report."""
    return _request("backtest", fields)
