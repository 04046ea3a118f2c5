#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "base/cancellation.h"
#include "compute/workers.h"
#include "market/backtest/sweep/all_in_account.h"
#include "market/backtest/sweep/compare.h"
#include "market/backtest/sweep/rows.h"
#include "market/backtest/sweep/stepper.h"
#include "market/backtest/sweep/sweep_kernels.h"

namespace sluice::market {
namespace {

using compute::Call;
using Word = std::uint64_t;
constexpr std::size_t kWordBits = 64;
constexpr std::size_t kQuads = 32;  // of sets whose comparisons are done together

struct HostBits {
  static constexpr bool kBranchFree = true;
  static int lowest(Word word) { return std::countr_zero(word); }
  static int highest(std::int32_t n) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(n))) - 1;
  }
  static double larger(double a, double b) { return a < b ? b : a; }
  static double smaller(double a, double b) { return b < a ? b : a; }
};

// Working memory of a thread.
struct Workspace {
  std::vector<Word> bits;           // of comparisons
  std::vector<std::int32_t> fills;  // of a set: the bars of its entries and exits in turn
};

// Orders the sets so that they find their rows in the cache: blocks of kBlock second rows, and
// within a block the sets that share a first row.
std::vector<std::uint32_t> order_of(const Call& call) {
  constexpr std::int32_t kBlock = 8;
  const SetCode* codes = call.input<SetCode>(kSets);
  std::vector<std::uint32_t> order(static_cast<std::size_t>(call.with<SweepParameters>().sets));
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [codes](std::uint32_t i) {
    const std::int32_t* rows = codes[i].rows;
    return std::tuple(rows[1] / kBlock, rows[0], rows[1], i);
  });
  return order;
}

// One ticker of a call, with everything its sets share.
class Ticker {
 public:
  void prepare(const Call& call, std::size_t item) {
    call_ = &call;
    const auto& p = call.with<SweepParameters>();
    span_ = call.input<Span>(kSpan)[item];
    const auto at = [&](std::size_t i) {
      return call.input<double>(i) + item * static_cast<std::size_t>(p.bars);
    };
    prices_ = {at(kOpen), at(kHigh), at(kLow), at(kClose), nullptr};
    const std::span closes(prices_.close, static_cast<std::size_t>(span_.end));
    rows_.compute({call.input<RowSpec>(kRows), static_cast<std::size_t>(p.rows)}, closes);
    if (p.all_in) return prepare_all_in(p.trading);
    if (p.trading.sizing != Sizing::volatility) return;
    volatility_.resize(closes.size());
    yearly_volatility(p.trading, closes, volatility_.data());
    prices_.volatility = volatility_.data();
  }

  // Runs the sets of `order` from begin to end.
  void run(const std::vector<std::uint32_t>& order, std::size_t begin, std::size_t end, Tally* out,
           Workspace& workspace) const {
    const auto& p = call_->with<SweepParameters>();
    const SetCode* codes = call_->input<SetCode>(kSets);
    const std::size_t each = words() * static_cast<std::size_t>(comparisons(p.strategy));
    workspace.bits.resize(std::max(each, words() * kRowsAtOnce * kQuads));
    while (begin < end) {
      throw_if_cancelled();
      const std::size_t together =
          compare(p.strategy, codes, &order[begin], end - begin, workspace);
      for (std::size_t i = 0; i < together; ++i, ++begin) {
        const SetCode& code = codes[order[begin]];
        const Word* bits = workspace.bits.data() + i * each;
        out[order[begin]] =
            p.all_in ? trade_all_in(p, code, bits, workspace.fills) : trade_steps(p, code, bits);
      }
    }
  }

 private:
  std::size_t words() const { return (static_cast<std::size_t>(span_.end) + 63) / kWordBits; }

  // Compares for the next set, or for many when each kRowsAtOnce of them share their first row and
  // compare nothing else. Returns their number.
  std::size_t compare(Strategy strategy, const SetCode* codes, const std::uint32_t* order,
                      std::size_t count, Workspace& workspace) const {
    const SetCode& code = codes[*order];
    if (comparisons(strategy) == 1) {
      const std::size_t quads =
          equal_first_rows(codes, order, std::min(count / kRowsAtOnce, kQuads));
      if (quads > 0) return compare_quads(codes, order, quads, workspace.bits.data());
    }
    Word* bits = workspace.bits.data();
    for (int i = 0; i < comparisons(strategy); ++i, bits += words()) {
      const Comparison c = comparison(strategy, code, i);
      const double* a = rows_.row(c.row) - c.lag;
      if (c.other >= 0)
        above_bits(a, rows_.row(c.other), bits, words());
      else if (c.below)
        below_bits(a, c.constant, bits, words());
      else
        above_bits(a, c.constant, bits, words());
    }
    return 1;
  }

  // The number of consecutive groups of kRowsAtOnce sets that share their first row.
  static std::size_t equal_first_rows(const SetCode* codes, const std::uint32_t* order,
                                      std::size_t limit) {
    std::size_t n = 0;
    const auto first_row = [&](std::size_t i) { return codes[order[i]].rows[0]; };
    while (n < limit && first_row(n * kRowsAtOnce) == first_row((n + 1) * kRowsAtOnce - 1)) ++n;
    return n;
  }

  // Compares all sets for some bars, then for the next bars: the rows stay in the L1 cache.
  std::size_t compare_quads(const SetCode* codes, const std::uint32_t* order, std::size_t quads,
                            Word* bits) const {
    constexpr std::size_t kChunk = 6;  // words: 3 KiB of each row
    for (std::size_t w = 0; w < words(); w += kChunk)
      for (std::size_t i = 0; i < quads * kRowsAtOnce; i += kRowsAtOnce) {
        const double* rows[kRowsAtOnce];
        Word* out[kRowsAtOnce];
        for (std::size_t k = 0; k < kRowsAtOnce; ++k) {
          rows[k] = rows_.row(codes[order[i + k]].rows[1]) + w * kWordBits;
          out[k] = bits + (i + k) * words() + w;
        }
        above_bits(rows_.row(codes[order[i]].rows[0]) + w * kWordBits, rows, out,
                   std::min(kChunk, words() - w));
      }
    return quads * kRowsAtOnce;
  }

  SignalBits<Word> signals(const SweepParameters& p, const SetCode& code, const Word* bits,
                           std::size_t w) const {
    Word c[kMaxComparisons] = {};
    for (int i = 0; i < comparisons(p.strategy); ++i)
      c[i] = bits[static_cast<std::size_t>(i) * words() + w];
    const auto base = static_cast<std::int64_t>(w * kWordBits);
    const std::int64_t begin = std::max<std::int64_t>(code.warm, span_.first - 1);
    return combine<Word>(p.strategy, c, bits_between<Word>(base, begin, span_.end - 1));
  }

  // Trades are listed first, so that their loads overlap with the work on other trades.
  Tally trade_all_in(const SweepParameters& p, const SetCode& code, const Word* bits,
                     std::vector<std::int32_t>& fills) const {
    fills.resize(static_cast<std::size_t>(span_.end) + kPadding);
    const std::size_t count = comparisons(p.strategy) == 1 ? crosses(code, bits, fills.data())
                                                           : entries(p, code, bits, fills.data());
    return account_of(p.trading, {fills.data(), count});
  }

  // A separate function, so that the account stays in registers.
  [[gnu::noinline]] Tally account_of(const Trading& trading,
                                     std::span<const std::int32_t> fills) const {
    AllInAccount<HostBits> account(tables_, trading.initial_cash);
    for (std::size_t i = 0; i + 1 < fills.size(); i += 2) account.trade(fills[i], fills[i + 1]);
    const bool inside = fills.size() % 2 != 0;
    return account.finish({inside, inside ? fills.back() : 0},
                          static_cast<std::int32_t>(span_.first),
                          static_cast<std::int32_t>(span_.end), trading);
  }

  // One comparison gives both the bars to be in and those to be out.
  std::size_t crosses(const SetCode& code, const Word* bits, std::int32_t* fills) const {
    const std::int64_t begin = std::max<std::int64_t>(code.warm, span_.first - 1);
    return transition_bars(bits, begin, span_.end - 1, fills);
  }

  std::size_t entries(const SweepParameters& p, const SetCode& code, const Word* bits,
                      std::int32_t* fills) const {
    TradeFinder<HostBits> finder;
    std::int32_t* next = fills;
    for (std::size_t w = 0; w < words(); ++w) {
      const auto s = signals(p, code, bits, w);
      finder.take<Word>(static_cast<std::int32_t>(w * kWordBits), s.enter_long, s.leave_long,
                        [&next](std::int32_t entry, std::int32_t exit) {
                          *next++ = entry;
                          *next++ = exit;
                        });
    }
    if (finder.inside()) *next++ = finder.entered();
    return static_cast<std::size_t>(next - fills);
  }

  Tally trade_steps(const SweepParameters& p, const SetCode& code, const Word* bits) const {
    Stepper account(p.trading, prices_);
    const std::int64_t from = span_.first - 1;
    SignalBits<Word> s = signals(p, code, bits, static_cast<std::size_t>(from) / kWordBits);
    for (std::int64_t t = from; t < span_.end; ++t) {
      const auto bit = static_cast<unsigned>(t) % kWordBits;
      if (bit == 0) s = signals(p, code, bits, static_cast<std::size_t>(t) / kWordBits);
      if (t > from) account.bar(t);
      const auto is = [bit](Word word) { return (word >> bit & 1) != 0; };
      account.decide({is(s.enter_long), is(s.leave_long), is(s.enter_short), is(s.leave_short)});
    }
    return account.finish();
  }

  void prepare_all_in(const Trading& trading) {
    const auto end = static_cast<std::size_t>(span_.end);
    const double* fills = trading.fill == Fill::next_open ? prices_.open : prices_.close;
    const double* close = prices_.close;
    const double free = trading.risk_free / trading.periods_per_year;
    ends_.resize(2 * (end + 1));
    TradeEnd *enter = ends_.data(), *leave = enter + end + 1, sums{};
    for (std::size_t t = 1; t < end; ++t) {
      const double change = close[t] / close[t - 1] - 1;
      leave[t] = leave_at(trading, fills[t], close[t - 1], sums);
      sums.sum += change;
      sums.squares += change * change;
      sums.downside += below_zero_squared(change - free);
      enter[t] = enter_at(trading, fills[t], close[t], sums);
    }
    leave[end] = {sums.sum, sums.squares, sums.downside, close[end - 1]};
    prepare_ranges(end);
    tables_ = {enter, leave, ranges_.data(), static_cast<std::int64_t>(end)};
  }

  void prepare_ranges(std::size_t end) {
    const auto levels = static_cast<std::size_t>(std::bit_width(end));
    ranges_.resize(levels * end);
    for (std::size_t t = 0; t < end; ++t) ranges_[t] = {prices_.close[t], prices_.close[t], 1};
    for (std::size_t k = 1; k < levels; ++k) {
      const Range* from = ranges_.data() + (k - 1) * end;
      const std::size_t half = std::size_t{1} << (k - 1);
      for (std::size_t t = 0; t + 2 * half <= end; ++t)
        ranges_[k * end + t] = joined<HostBits>(from[t], from[t + half]);
    }
  }

  const Call* call_ = nullptr;
  Span span_{};
  StepPrices prices_{};
  AllInTables tables_{};
  IndicatorRows rows_;
  std::vector<double> volatility_;
  std::vector<TradeEnd> ends_;
  std::vector<Range> ranges_;
};

// The tables of a thread take megabytes and are reused for the next ticker.
struct ThreadState {
  Ticker ticker;
  Workspace workspace;
};

class ThreadStatePool {
 public:
  std::unique_ptr<ThreadState> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<ThreadState>();
    auto state = std::move(free_.back());
    free_.pop_back();
    return state;
  }
  void leave(std::unique_ptr<ThreadState> state) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(state));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadState>> free_;
};

}  // namespace

void sweep_cpu(const Call& call, compute::Workers& workers) {
  const auto sets = static_cast<std::size_t>(call.with<SweepParameters>().sets);
  const auto out = [&](std::size_t item) { return call.output<Tally>(0) + item * sets; };
  const auto order = order_of(call);
  if (call.items >= 2 * static_cast<std::size_t>(workers.threads())) {
    ThreadStatePool states;
    workers.each(call.items, 1, [&](std::size_t begin, std::size_t end) {
      auto state = states.take();
      for (std::size_t item = begin; item < end; ++item) {
        state->ticker.prepare(call, item);
        state->ticker.run(order, 0, sets, out(item), state->workspace);
      }
      states.leave(std::move(state));
    });
    return;
  }
  for (std::size_t item = 0; item < call.items; ++item) {
    Ticker ticker;
    ticker.prepare(call, item);
    workers.each(sets, 64, [&](std::size_t begin, std::size_t end) {
      Workspace workspace;
      ticker.run(order, begin, end, out(item), workspace);
    });
  }
}

}  // namespace sluice::market
