#include "bindings/market.h"

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "bindings/c_errors.h"
#include "compute/compute.h"
#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"
#include "market/request/request.h"

struct sluice_market {
  std::unique_ptr<sluice::compute::Compute> compute;
};

namespace {

using namespace sluice;
using bindings::catch_errors;
using market::Arrays;

market::Plan plan_of(const char* indicator, const double* values, size_t count) {
  require(indicator != nullptr && (values != nullptr || count == 0), "a pointer is null");
  return market::indicator(indicator).plan(std::span(values, count));
}

template <class T>
struct Run {
  const T* const* in;
  size_t in_count;
  T* const* out;
  size_t out_count;
  size_t series, bars;
};

template <class T>
void run(sluice_market* m, const market::Plan& plan, const Run<T>& r, const char* device) {
  require(m != nullptr && r.in != nullptr && r.out != nullptr, "a pointer is null");
  const auto preference = compute::device_preference_from(device == nullptr ? "auto" : device);
  require(preference.has_value(), "device is auto, cpu or gpu");
  m->compute->require_device(*preference);
  require(r.in_count == static_cast<size_t>(plan.inputs) &&
              r.out_count == static_cast<size_t>(plan.outputs),
          "the number of arrays is not the indicator's");
  if (r.series == 0 || r.bars == 0) return;
  require(r.series <= static_cast<size_t>(-1) / sizeof(T) / r.bars, "series x bars is too large");
  Arrays<const T> in;
  Arrays<T> out;
  for (size_t i = 0; i < r.in_count; ++i) in.emplace_back(r.in[i], r.series * r.bars);
  for (size_t i = 0; i < r.out_count; ++i) out.emplace_back(r.out[i], r.series * r.bars);
  market::run(*m->compute, plan, in, out, r.bars, *preference);
}

}  // namespace

sluice_market* sluice_market_open(const char* device, const char* costs, char* error,
                                  size_t error_size) {
  sluice_market* made = nullptr;
  catch_errors(error, error_size, [&] {
    made = new sluice_market{
        compute::make_compute(device == nullptr ? "auto" : device, costs == nullptr ? "" : costs)};
  });
  return made;
}

void sluice_market_close(sluice_market* m) { delete m; }

const char* sluice_market_version(void) { return SLUICE_VERSION; }

const char* sluice_market_indicators(void) {
  static const std::string text = market::indicator_list().dump();
  return text.c_str();
}

int sluice_market_lookback(const char* indicator, const double* values, size_t count, size_t* bars,
                           char* error, size_t error_size) {
  return catch_errors(error, error_size, [&] {
    require(bars != nullptr, "a pointer is null");
    *bars = static_cast<size_t>(plan_of(indicator, values, count).lookback);
  });
}

int sluice_market_run(sluice_market* m, const char* indicator, const double* values, size_t count,
                      const double* const* in, size_t in_count, double* const* out,
                      size_t out_count, size_t series, size_t bars, const char* device, char* error,
                      size_t error_size) {
  return catch_errors(error, error_size, [&] {
    run<double>(m, plan_of(indicator, values, count), {in, in_count, out, out_count, series, bars},
                device);
  });
}

int sluice_market_run_float(sluice_market* m, const char* indicator, const double* values,
                            size_t count, const float* const* in, size_t in_count,
                            float* const* out, size_t out_count, size_t series, size_t bars,
                            const char* device, char* error, size_t error_size) {
  return catch_errors(error, error_size, [&] {
    run<float>(m, plan_of(indicator, values, count), {in, in_count, out, out_count, series, bars},
               device);
  });
}

int sluice_market_request(sluice_market* m, const char* calculation, const char* request,
                          char** answer, char* error, size_t error_size) {
  return catch_errors(error, error_size, [&] {
    require(m != nullptr && calculation != nullptr && request != nullptr && answer != nullptr,
            "a pointer is null");
    const std::string text = market::answer_text(*m->compute, calculation, request);
    *answer = static_cast<char*>(std::malloc(text.size() + 1));
    if (*answer == nullptr) throw std::bad_alloc();
    std::memcpy(*answer, text.c_str(), text.size() + 1);
  });
}

void sluice_market_free(char* answer) { std::free(answer); }
