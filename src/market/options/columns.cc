#include "market/options/columns.h"

#include "market/input/require.h"

namespace sluice::market {

template <class T>
compute::Call option_call(const OptionColumns<T>& c, std::size_t items) {
  compute::Call call{.items = items};
  const auto add = [&](const char* name, const Column<T>& column) {
    if (!column.is_scalar()) require_length(name, column.size(), items);
    call.in.push_back(column.operand());
  };
  add("spot", c.spot);
  add("strike", c.strike);
  add("t", c.t);
  add("rate", c.rate);
  add("div_yield", c.div_yield);
  add("vol", c.vol);
  return call;
}

template compute::Call option_call(const OptionColumns<float>&, std::size_t);
template compute::Call option_call(const OptionColumns<double>&, std::size_t);

}  // namespace sluice::market
