// Any bytes as a CSV, and as the body of each market route: each is answered, or refused
// with a short reason. Built for libFuzzer with clang, and for the smoke test beside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "market/csv.h"
#include "market/request/request.h"

namespace {

using namespace sluice;

constexpr std::string_view kWhat[] = {"rsi",  "bbands",    "atr",        "option",
                                      "risk", "portfolio", "montecarlo", "backtest"};

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

void ask(std::string_view what, const Json& request) {
  static compute::Compute compute({.threads = 1});
  // Small limits: what is slow is not what is wrong.
  answered_or_refused([&] {
    const auto text = market::answer(compute, what, request, {.most_work = 1e5}).dump();
    check(!Json::parse(text, nullptr, false).is_discarded());
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  answered_or_refused([&] { read_table(bytes); });
  Json request;
  try {
    request = parse_json_object(bytes, "the body");
  } catch (const Error&) {
    return 0;
  }
  for (const auto what : kWhat) ask(what, request);
  return 0;
}
