#include "broker/enforce/enforce.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace sluice::broker {

namespace {

bool is_observed(const Lease& lease, const Evidence& evidence) {
  return lease.request.holder.pid != 0 &&
         std::ranges::all_of(evidence.cards, [&](const CardEvidence& c) {
           return c.lists_memory && (evidence.host_pids || c.holder_seen);
         });
}

// A promise that a program makes of itself is not evidence: its allocator's limit must have been
// read back and be within the lease, and the driver must show the program on every card, and
// within the lease there.
bool is_limited_by_client(const Lease& lease, const Evidence& evidence) {
  const auto fits = [&](const Part& part) { return lease.client_limit <= part.bytes; };
  return lease.request.client_limits && lease.client_limit > 0 && lease.over_use == 0 &&
         std::ranges::all_of(lease.parts, fits) &&
         std::ranges::all_of(evidence.cards, &CardEvidence::holder_seen);
}

// Downwards, so that a limit taken from it is never above the lease. Of several cards
// the least share, as one number has to do for all.
double share_of(const Lease& lease, std::span<const EnvCard> cards) {
  double min_share = 1;
  for (std::size_t i = 0; i < lease.parts.size(); ++i)
    min_share = std::min(min_share, static_cast<double>(lease.parts[i].bytes) /
                                        static_cast<double>(cards[i].memory_total));
  return std::floor(min_share * 10000) / 10000;
}

std::string joined(std::span<const EnvCard> cards, std::string EnvCard::*member) {
  std::string list;
  for (const auto& c : cards) list += (list.empty() ? "" : ",") + c.*member;
  return list;
}

}  // namespace

Enforcement enforcement_of(const Lease& lease, const Evidence& evidence) noexcept {
  if (lease.parts.empty() || evidence.cards.size() != lease.parts.size()) return Enforcement::none;
  if (evidence.cgroup_verified && lease.over_use == 0) return Enforcement::cgroup;  // else refuted
  const bool by_mps = evidence.mps_limit_seen &&
                      std::ranges::all_of(evidence.cards, &CardEvidence::holder_uses_mps);
  if (by_mps) return Enforcement::mps;
  if (!is_observed(lease, evidence)) return Enforcement::none;
  return is_limited_by_client(lease, evidence) ? Enforcement::client : Enforcement::observed;
}

std::string mps_limit(const Lease& lease) {
  std::string text;
  for (std::size_t i = 0; i < lease.parts.size(); ++i)
    text += fmt::format("{}{}={}M", i == 0 ? "" : ",", i, lease.parts[i].bytes >> 20);
  return text;
}

Env env_for(const Lease& lease, std::span<const EnvCard> cards, bool mps_daemon) {
  if (lease.parts.empty()) return {{"CUDA_VISIBLE_DEVICES", "-1"}};
  Env env{{"SLUICE_LEASE_ID", std::to_string(lease.id)}};
  if (cards.size() != lease.parts.size()) return env;  // a card that is no longer there
  const bool is_nvidia = std::ranges::all_of(cards, &EnvCard::is_nvidia);
  if (is_nvidia) {
    env.emplace_back("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    env.emplace_back("CUDA_VISIBLE_DEVICES", joined(cards, &EnvCard::uuid));
  }
  env.emplace_back("SLUICE_GPU_BUS", joined(cards, &EnvCard::bus));
  env.emplace_back("SLUICE_GPU_MEMORY_BYTES",
                   std::to_string(std::ranges::min(lease.parts, {}, &Part::bytes).bytes));
  if (std::ranges::all_of(cards, [](const EnvCard& c) { return c.memory_total > 0; }))
    env.emplace_back("GPU_MEMORY_FRACTION", fmt::format("{:.4f}", share_of(lease, cards)));
  if (mps_daemon && is_nvidia)
    env.emplace_back("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", mps_limit(lease));
  return env;
}

}  // namespace sluice::broker
