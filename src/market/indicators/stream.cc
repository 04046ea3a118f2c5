#include "market/indicators/stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "market/indicators/rules/dispatch_rules-inl.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

namespace rules = SLUICE_RULES;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct CreateState {
  std::vector<std::byte>& bytes;

  template <class S>
  void run() {
    static_assert(std::is_trivially_copyable_v<S>);
    bytes.resize(sizeof(S));
    const S fresh{};
    std::memcpy(bytes.data(), &fresh, sizeof(S));
  }
};

struct UpdateState {
  const Plan& plan;
  std::byte* bytes;
  const double* in;
  double* ring;
  double* out;

  template <class S>
  void run() {
    S state;
    std::memcpy(&state, bytes, sizeof(S));
    state.update(plan, in, ring, out);
    std::memcpy(bytes, &state, sizeof(S));
  }
};

// FNV-1a, against states that were cut or changed: a rule trusts its own numbers.
std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

bool same(const Plan& a, const Plan& b) { return std::memcmp(&a, &b, sizeof(Plan)) == 0; }

}  // namespace

Stream::Stream(const Plan& plan) : plan_(plan), ring_(static_cast<std::size_t>(plan.ring)) {
  rules::visit_rule<double>(plan_, CreateState{rule_});
}

void Stream::update(std::span<const double> in, std::span<double> out) {
  require_length("bar", in.size(), static_cast<std::size_t>(plan_.inputs));
  require_length("out", out.size(), static_cast<std::size_t>(plan_.outputs));
  const bool complete = std::ranges::none_of(in, [](double x) { return std::isnan(x); });
  double made[kMaxOutputs] = {};
  if (bars_ > 0 || complete) {
    rules::visit_rule<double>(plan_,
                              UpdateState{plan_, rule_.data(), in.data(), ring_.data(), made});
    ++bars_;
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = bars_ > plan_.lookback ? made[i] : kNan;
}

void Stream::peek(std::span<const double> in, std::span<double> out) const {
  Stream copy = *this;
  copy.update(in, out);
}

std::vector<std::byte> Stream::save() const {
  std::vector<std::byte> all(sizeof(Plan) + sizeof bars_ + rule_.size() +
                             ring_.size() * sizeof(double) + sizeof(std::uint64_t));
  std::byte* to = all.data();
  const auto put = [&to](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  put(&plan_, sizeof(Plan));
  put(&bars_, sizeof bars_);
  put(rule_.data(), rule_.size());
  put(ring_.data(), ring_.size() * sizeof(double));
  const std::uint64_t check = digest(std::span(all).first(all.size() - sizeof check));
  put(&check, sizeof check);
  return all;
}

void Stream::load(std::span<const std::byte> state) {
  Plan plan;
  const std::byte* from = state.data();
  const auto get = [&from](void* to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    from += bytes;
  };
  require(state.size() == save().size(), "this state is of another indicator or build");
  std::uint64_t check = 0;
  const auto body = state.first(state.size() - sizeof check);
  std::memcpy(&check, body.data() + body.size(), sizeof check);
  require(check == digest(body), "this state is damaged");
  get(&plan, sizeof(Plan));
  require(same(plan, plan_), "this state is of another indicator or other parameters");
  get(&bars_, sizeof bars_);
  get(rule_.data(), rule_.size());
  get(ring_.data(), ring_.size() * sizeof(double));
}

}  // namespace sluice::market
