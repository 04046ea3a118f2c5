// Any bytes as a CSV, and as the body of each market route, by the code that serves them: each is
// answered, or refused with a short reason. Then once more with one of the body's lists longer or
// shorter, since what must agree in size seldom does so by chance. Built for libFuzzer with clang,
// and for the smoke test beside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "market/indicators/indicator.h"
#include "market/input/csv.h"
#include "market/request/request.h"

namespace {

using namespace sluice;

constexpr std::string_view kCalculations[] = {"option", "risk", "portfolio", "montecarlo",
                                              "backtest"};

void check(bool ok) {
  if (!ok) std::abort();
}

template <class Work>
void answered_or_refused(Work work) {
  try {
    work();
  } catch (const Error& e) {
    check(e.code() == Code::invalid_argument || e.code() == Code::not_found);
    const std::string_view reason = e.what();
    check(!reason.empty() && reason.size() < 8192);
  }
}

void read_table(std::string_view bytes) {
  const auto csv = market::Csv::parse(std::string(bytes), "input");
  for (std::size_t column = 0; column < csv.header().size(); ++column) {
    check(csv.has(csv.header()[column]));
    for (std::size_t row = 0; row < csv.rows(); ++row)
      check(csv.text(row, column).size() <= bytes.size());
    answered_or_refused([&] { check(csv.numbers(column).size() == csv.rows()); });
  }
}

void ask(std::string_view what, std::string_view body) {
  static compute::Compute compute({.threads = 1});
  // Small limits: what is slow is not what is wrong.
  answered_or_refused([&] {
    const auto text = market::answer_text(compute, what, body, {.max_work = 1e5});
    check(!Json::parse(text, nullptr, false).is_discarded());
  });
}

// Every calculation, and a few of the indicators.
void ask_all(std::string_view body, std::size_t seed) {
  for (const auto what : kCalculations) ask(what, body);
  const auto indicators = market::indicators();
  for (std::size_t i = 0; i < 3; ++i) ask(indicators[(seed + i) % indicators.size()].name, body);
}

void find_lists(Json& json, std::vector<Json*>& found) {
  if (json.is_array()) found.push_back(&json);
  if (json.is_structured())
    for (Json& each : json) find_lists(each, found);
}

// One list without its last element, with one more, or twice as long.
bool resize_one(Json& request, std::size_t seed) {
  std::vector<Json*> lists;
  find_lists(request, lists);
  std::erase_if(lists, [](const Json* list) { return list->empty() || list->size() > 1000; });
  if (lists.empty()) return false;
  Json& list = *lists[seed % lists.size()];
  const Json copy = list;
  switch (seed / lists.size() % 3) {
    case 0: list.erase(list.size() - 1); break;
    case 1: list.push_back(copy.back()); break;
    default: list.insert(list.end(), copy.begin(), copy.end());
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  answered_or_refused([&] { read_table(bytes); });
  const std::size_t seed = std::hash<std::string_view>{}(bytes);
  Json request = Json::parse(bytes, nullptr, false);
  if (!request.is_object()) {
    ask("option", bytes);
    return 0;
  }
  ask_all(bytes, seed);
  if (resize_one(request, seed / 64)) ask_all(request.dump(), seed);
  return 0;
}
