// {"spot": 100, "strike": [90, 100], "t": 0.5, "rate": 0.03, "vol": 0.2, "kind": "put"}:
// each column a number or a list.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/error.h"
#include "market/montecarlo/heston.h"
#include "market/options/american.h"
#include "market/options/binomial.h"
#include "market/options/black_scholes.h"
#include "market/request/asking.h"
#include "market/request/dimension.h"

namespace sluice::market {

namespace {

constexpr std::array<std::string_view, 5> kModels{"black_scholes", "binomial", "american", "heston",
                                                  "implied"};
enum Model : std::size_t { black_scholes_model, tree_model, american_model, heston_model, implied };
constexpr std::array<std::string_view, 2> kExercises{"european", "american"};
constexpr std::array<std::string_view, 3> kAccuracies{"fast", "standard", "fine"};

struct Given {
  double one = 0;
  std::vector<double> many;  // empty: `one` for all
  double at(std::size_t i) const { return many.empty() ? one : many[i]; }
  Column<double> column() const {
    return many.empty() ? Column<double>(one) : Column<double>(many);
  }
};

struct Book {
  std::size_t model = 0, count = 1;
  Dimension options{"options"};  // that lists are of
  Given spot, strike, t, rate, div_yield, vol, price;
  std::vector<OptionKind> kinds;  // one for all, or one each
  BinomialOptions tree{};
  AmericanAccuracy accuracy{};
  Heston heston{};

  bool single() const { return !options.known(); }  // numbers only: the answer has numbers, too
  OptionColumns<double> columns() const {
    return {spot.column(), strike.column(),    t.column(),
            rate.column(), div_yield.column(), vol.column()};
  }
};

struct Result {
  std::vector<std::pair<std::string, std::vector<double>>> columns;
  std::vector<ImpliedReason> reasons;
  compute::Outcome outcome;
};

// Null: it must be given.
Given read(Asking& asking, Book& book, std::string_view name, const double* otherwise) {
  const Json* found = asking.fields.find(name);
  if (found == nullptr) {
    require(otherwise != nullptr, fmt::format("'{}' is missing: a number or a list of them", name));
    return {*otherwise, {}};
  }
  if (found->is_number()) return {found->get<double>(), {}};
  if (!is_list(*found)) refuse_field(name, "a number or a list of numbers", *found);
  Given given{0, numbers_of(*found, name)};
  require(!given.many.empty(), fmt::format("'{}' is empty", name));
  book.options.agree(name, given.many.size());
  book.count = given.many.size();
  return given;
}

// `number`: of its place in a list.
OptionKind kind_from(const Json& json, std::optional<std::size_t> number) {
  if (json == "call") return OptionKind::call;
  if (json == "put") return OptionKind::put;
  refuse_field(number ? fmt::format("kind[{}]", *number) : "kind", "call or put", json);
}

void read_kinds(Asking& asking, Book& book) {
  const Json* found = asking.fields.find("kind");
  if (found == nullptr || !found->is_array()) {
    book.kinds = {found == nullptr ? OptionKind::call : kind_from(*found, std::nullopt)};
    return;
  }
  require(!book.single(), "'kind' is a list; so must be 'spot', 'strike' or another column");
  book.options.agree("kind", found->size());
  for (std::size_t i = 0; i < found->size(); ++i) book.kinds.push_back(kind_from((*found)[i], i));
}

void read_model(Asking& asking, Book& book) {
  Fields& f = asking.fields;
  if (book.model == tree_model) {
    book.tree.exercise =
        f.one_of("exercise", kExercises, 1) == 0 ? Exercise::european : Exercise::american;
    book.tree.steps = static_cast<int>(f.whole("steps", 1024, 1, kMostTreeSteps));
  }
  if (book.model == american_model)
    book.accuracy = static_cast<AmericanAccuracy>(f.one_of("accuracy", kAccuracies, 1));
  if (book.model == heston_model) {
    book.heston = {f.number("v0", 0.04), f.number("kappa", 1), f.number("theta", 0.04),
                   f.number("sigma", 0.5), f.number("rho", -0.7)};
  }
}

// Steps that one option of the model takes.
double work_of_one(const Book& book) {
  constexpr double kAmerican[] = {2e3, 1.6e4, 1.3e5};  // by accuracy
  switch (book.model) {
    case tree_model: return 0.5 * book.tree.steps * book.tree.steps;
    case american_model: return kAmerican[static_cast<std::size_t>(book.accuracy)];
    case implied: return 1500;
    default: return 300;
  }
}

HestonOption heston_option(const Book& book, OptionKind kind, std::size_t i) {
  return {kind,         book.spot.at(i), book.strike.at(i),
          book.t.at(i), book.rate.at(i), book.div_yield.at(i),
          book.heston};
}

// Far from the usual they are not priced in vectors but one by one.
bool slow_american(const Book& book, std::size_t i) {
  const double t = book.t.at(i), highest = std::max(book.rate.at(i), book.div_yield.at(i));
  return highest * t > 100 || book.vol.at(i) * std::sqrt(t) < 0.01;
}

double work_of_all(const Book& book) {
  constexpr double kPanel = 3500, kSlower = 25;
  double work = 0;
  if (book.model == heston_model)
    for (std::size_t i = 0; i < book.count; ++i) {
      throw_if_cancelled();
      work += kPanel * heston_panels(heston_option(book, OptionKind::call, i));
    }
  else if (book.model == american_model)
    for (std::size_t i = 0; i < book.count; ++i)
      work += work_of_one(book) * (slow_american(book, i) ? kSlower : 1);
  else
    work = static_cast<double>(book.count) * work_of_one(book);
  return work;
}

void check_cost(Asking& asking, const Book& book) {
  const auto count = static_cast<double>(book.count), both = book.kinds.size() > 1 ? 2.0 : 1.0;
  const double columns = book.model == black_scholes_model ? double{kGreekCount} : 1;
  constexpr double kInput = 8 * 8;  // numbers of an option, as given and in columns
  asking.charge(count * (kInput + columns * (8 * both + kNumberBytes)), "so many options");
  asking.check_work(
      both * work_of_all(book) + count * columns * kNumberWork,
      book.model == tree_model ? "'steps' and the number of options" : "so many options");
}

Book read_book(Asking& asking) {
  Book book;
  const double zero = 0;
  book.model = asking.fields.one_of("model", kModels, 0);
  const bool has_vol = book.model != heston_model && book.model != implied;
  book.spot = read(asking, book, "spot", nullptr);
  book.strike = read(asking, book, "strike", nullptr);
  book.t = read(asking, book, "t", nullptr);
  book.rate = read(asking, book, "rate", &zero);
  book.div_yield = read(asking, book, "div_yield", &zero);
  if (has_vol) book.vol = read(asking, book, "vol", nullptr);
  if (book.model == implied) book.price = read(asking, book, "price", nullptr);
  read_kinds(asking, book);
  read_model(asking, book);
  asking.fields.finish();
  check_cost(asking, book);
  return book;
}

Result with_greeks(Asking& asking, const Book& book, OptionKind kind) {
  auto greeks =
      black_scholes_greeks<double>(asking.compute, book.columns(), kind, book.count, asking.where);
  Result result;
  result.outcome = greeks.ran;
  for (std::size_t i = 0; i < kGreekCount; ++i)
    result.columns.emplace_back(name(static_cast<Greek>(i)), greeks.take(static_cast<Greek>(i)));
  return result;
}

Result by_heston(Asking& asking, const Book& book, OptionKind kind) {
  std::vector<double> prices(book.count);
  const Instant begun = Steady::now();
  // A millisecond each, mostly; but a second where the integral hardly falls.
  const double most_s = std::max(1.0, asking.limits.most_work / kStepsASecond);
  asking.compute.workers().each(book.count, 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      require(seconds_between(begun, Steady::now()) <= most_s,
              "Heston's formula takes too long for these options; ask for fewer at once");
      prices[i] = heston_price(heston_option(book, kind, i));
    }
  });
  compute::Outcome ran;
  ran.items_on_cpu = book.count;
  ran.seconds = seconds_between(begun, Steady::now());
  ran.choice.reason = "Heston's formula is for the CPU alone";
  return {{{"price", std::move(prices)}}, {}, std::move(ran)};
}

Result result_of(Asking& asking, const Book& book, OptionKind kind) {
  if (book.model == black_scholes_model) return with_greeks(asking, book, kind);
  if (book.model == heston_model) return by_heston(asking, book, kind);
  Result result;
  std::vector<double> out(book.count);
  if (book.model == implied) {
    result.reasons.resize(book.count);
    result.outcome = implied_volatility(asking.compute, book.price.column(), book.columns(), kind,
                                        out, result.reasons, asking.where);
  } else if (book.model == american_model) {
    result.outcome =
        american(asking.compute, book.columns(), kind, out, book.accuracy, asking.where);
  } else {
    BinomialOptions tree = book.tree;
    tree.kind = kind;
    result.outcome = binomial(asking.compute, book.columns(), tree, out, asking.where);
  }
  result.columns.emplace_back(book.model == implied ? "vol" : "price", std::move(out));
  return result;
}

// With kinds of each option: both are worked out, and each takes its own.
Result result_of(Asking& asking, const Book& book) {
  Result result = result_of(asking, book, book.kinds[0]);
  if (book.kinds.size() == 1) return result;
  const OptionKind other = book.kinds[0] == OptionKind::call ? OptionKind::put : OptionKind::call;
  const Result second = result_of(asking, book, other);
  for (std::size_t i = 0; i < book.count; ++i) {
    if (book.kinds[i] != other) continue;
    for (std::size_t c = 0; c < result.columns.size(); ++c)
      result.columns[c].second[i] = second.columns[c].second[i];
    if (!result.reasons.empty()) result.reasons[i] = second.reasons[i];
  }
  return result;
}

// Why option `i` has no price.
std::string_view why_none(const Book& book, std::size_t i) {
  const Given* const columns[] = {&book.spot, &book.strike, &book.t,
                                  &book.vol,  &book.rate,   &book.div_yield};
  const auto at = [i](const Given* given) { return given->at(i); };
  if (!std::ranges::all_of(
          columns, [](double v) { return std::isfinite(v); }, at))
    return "a number is missing or not finite";
  const std::span prices(columns, 4);
  if (std::ranges::any_of(
          prices, [](double v) { return v < 0; }, at))
    return "spot, strike, t and vol must not be negative";
  if (book.model == american_model)
    return "exercising pays between two boundaries, which this method has not: take binomial";
  if (book.model != tree_model) return "the numbers are out of range";
  if (std::ranges::any_of(
          prices, [](double v) { return v == 0; }, at))
    return "a tree needs spot, strike, t and vol above zero";
  return "so low a volatility needs more steps";
}

constexpr double kReasonBytes = 250;  // a sentence, and its text in the answer

// Null where there is a price; nothing when all have one.
Json reasons_of(Asking& asking, const Book& book, const std::vector<double>& prices) {
  const auto none = [](double price) { return std::isnan(price); };
  if (std::ranges::none_of(prices, none)) return nullptr;
  asking.charge(kReasonBytes * static_cast<double>(prices.size()),
                "so many options without a price");
  Json list = Json::array();
  for (std::size_t i = 0; i < prices.size(); ++i)
    list.push_back(none(prices[i]) ? Json(why_none(book, i)) : Json(nullptr));
  return list;
}

Json reasons_of(Asking& asking, const std::vector<ImpliedReason>& reasons) {
  asking.charge(kReasonBytes * static_cast<double>(reasons.size()), "so many options");
  Json list = Json::array();
  for (const ImpliedReason reason : reasons)
    list.push_back(reason == ImpliedReason::found ? Json(nullptr) : Json(explain(reason)));
  return list;
}

}  // namespace

Json answer_option(Asking& asking) {
  const Book book = read_book(asking);
  Result result = result_of(asking, book);
  Json answer = {{"model", kModels[book.model]}, {"options", book.count}};
  if (book.kinds.size() == 1)
    answer["kind"] = kOptionKinds[static_cast<std::size_t>(book.kinds[0])];
  Json reasons = result.reasons.empty() ? reasons_of(asking, book, result.columns[0].second)
                                        : reasons_of(asking, result.reasons);
  for (auto& [name, values] : result.columns) {
    append_member(answer, name, book.single() ? number_or_null(values[0]) : list_of(values));
    values = {};  // it is part of the answer now
  }
  if (!reasons.is_null()) answer["reason"] = book.single() ? reasons[0] : std::move(reasons);
  asking.tell(answer, result.outcome);
  return answer;
}

}  // namespace sluice::market
