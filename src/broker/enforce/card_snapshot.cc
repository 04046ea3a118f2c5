#include "broker/enforce/card_snapshot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "broker/enforce/enforce_mps.h"
#include "broker/enforce/holder.h"

namespace sluice::broker {

namespace {

using device::HealthState;
using device::Metric;
using device::Vendor;

constexpr double kMaxSlowness = 6;  // a sampler that is slower than that knows nothing
constexpr int kGenerations = 16;    // how far up a process's parents are looked at

std::uint64_t bytes_of(double value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; }

bool is_decimal(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// An index counts NVIDIA's cards, as CUDA_VISIBLE_DEVICES does, where there are any.
bool is_counted(const CardSnapshot& s, bool any_nvidia) {
  return !any_nvidia || s.vendor == Vendor::nvidia;
}

bool is_named(const CardSnapshot& s, std::string_view device, bool any_nvidia) {
  if (is_decimal(device))
    return s.index && is_counted(s, any_nvidia) && std::to_string(*s.index) == device;
  return device == "all" || device == s.card.uuid || device == s.card.bus ||
         (device.starts_with("GPU-") && s.card.uuid.starts_with(device));
}

// The holder that `id` is, or descends from; itself when it is nobody's.
ProcessId owner_of(const ProcessId& id, std::int64_t parent, const std::set<ProcessId>& holders,
                   const std::string& proc) {
  if (holders.contains(id)) return id;
  for (int i = 0; i < kGenerations && parent > 1; ++i) {
    const auto stat = process_stat(parent, proc);
    if (!stat) break;
    if (holders.contains({parent, stat->start_time})) return {parent, stat->start_time};
    parent = stat->parent;
  }
  return id;
}

// One process of a holder without the limit, and the holder is not limited.
void add_mps(std::int64_t pid, const ProcessId& holder, const std::string& proc,
             CardSnapshot& card_snapshot) {
  auto limit = started_with(pid, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", proc);
  const auto [known, is_new] = card_snapshot.mps_limits.try_emplace(holder, limit);
  if (!is_new && known->second != limit) known->second.clear();
}

void add_processes(const device::Readings& readings, const std::set<ProcessId>& holders,
                   const std::string& proc, CardSnapshot& card_snapshot) {
  card_snapshot.card.processes_at = readings.processes_at;
  for (const auto& p : readings.processes) {
    const auto stat = process_stat(p.pid, proc);
    ProcessId id{p.pid, stat ? stat->start_time : 0};
    if (stat && !holders.empty()) id = owner_of(id, stat->parent, holders, proc);
    if (p.kind == "mps") add_mps(p.pid, id, proc, card_snapshot);
    card_snapshot.card.processes.push_back({id.first, id.second, p.memory, p.name, p.user});
  }
}

void add_memory(const watch::GpuView& view, const device::GpuConfig& gpu,
                CardSnapshot& card_snapshot) {
  const auto& r = view.readings;
  auto total = r.value(Metric::memory_total)
                   ? bytes_of(*r.value(Metric::memory_total))
                   : view.gpu.memory_total.value_or(bytes_of(gpu.memory_gb * kGiB));
  const auto reserved = r.value(Metric::memory_reserved)
                            ? bytes_of(*r.value(Metric::memory_reserved))
                            : view.gpu.memory_reserved.value_or(0);
  card_snapshot.memory_total = total;
  card_snapshot.card.total = std::min(total - std::min(total, reserved),
                                      bytes_of(static_cast<double>(total) * gpu.memory_fraction));
  if (const auto& used = r.at(Metric::memory_used)) {
    card_snapshot.card.used = bytes_of(used->value);
    card_snapshot.card.sampled_at = used->at;
  }
}

void judge(const watch::GpuView& view, CardSnapshot& card_snapshot) {
  const auto state = view.health.state;
  card_snapshot.card.usable = state == HealthState::healthy || state == HealthState::degraded;
  if (!card_snapshot.card.usable)
    card_snapshot.card.why_unusable =
        fmt::format("{}: {}", to_string(state),
                    view.health.cause.empty() ? "it returns after its canary" : view.health.cause);
}

void exclude(const watch::GpuView& view, const device::GpuConfig& gpu, bool any_nvidia,
             CardSnapshot& card_snapshot) {
  const auto say = [&](const char* why) {
    card_snapshot.card.excluded = true;
    card_snapshot.card.usable = false;
    card_snapshot.card.why_unusable = why;
  };
  if (!gpu.enabled) return say("gpu.enabled is false");
  if (view.gpu.mig && view.gpu.mig->enabled)
    return say("it is split by MIG, and leases are of whole GPUs");
  const bool is_chosen = std::ranges::any_of(
      gpu.devices, [&](const Ident& d) { return is_named(card_snapshot, d.text, any_nvidia); });
  if (!is_chosen) say("gpu.devices leaves it out");
}

void add_links(const watch::Snapshot& snapshot, std::vector<CardSnapshot>& card_snapshots) {
  std::map<std::string_view, std::string_view> uuid_at;
  for (const auto& s : card_snapshots) uuid_at.emplace(s.card.bus, s.card.uuid);
  for (std::size_t i = 0; i < card_snapshots.size(); ++i) {
    std::set<std::string> linked;
    for (const auto& link : snapshot.gpus[i].gpu.nvlinks)
      if (const auto peer = uuid_at.find(link.peer_bus); link.active && peer != uuid_at.end())
        linked.emplace(peer->second);
    card_snapshots[i].card.linked_to.assign(linked.begin(), linked.end());
  }
}

}  // namespace

std::vector<CardSnapshot> card_snapshots_of(const watch::Snapshot& snapshot,
                                            const device::GpuConfig& gpu,
                                            const std::set<ProcessId>& holders,
                                            const std::string& proc) {
  const bool any_nvidia = std::ranges::any_of(
      snapshot.gpus, [](const auto& g) { return g.gpu.vendor == Vendor::nvidia; });
  std::map<Vendor, int> count;
  std::vector<CardSnapshot> card_snapshots;
  const bool has_all = snapshot.has_all_gpus;
  if (!has_all && std::ranges::any_of(gpu.devices, is_decimal, &Ident::text)) return card_snapshots;
  for (const auto& view : snapshot.gpus) {  // by bus
    CardSnapshot s;
    s.card.uuid = view.gpu.uuid, s.card.bus = view.gpu.bus, s.card.name = view.gpu.name;
    s.card.numa_node = view.gpu.numa_node;
    s.vendor = view.gpu.vendor;
    if (has_all) s.index = count[s.vendor]++;
    if (s.index && is_counted(s, any_nvidia)) s.card.index = std::to_string(*s.index);
    s.card.all_listed = has_all;
    s.card.slowness = std::clamp(snapshot.sampler.interval_scale, 1.0, kMaxSlowness);
    add_memory(view, gpu, s);
    add_processes(view.readings, holders, proc, s);
    judge(view, s);
    exclude(view, gpu, any_nvidia, s);
    card_snapshots.push_back(std::move(s));
  }
  add_links(snapshot, card_snapshots);
  return card_snapshots;
}

std::vector<const CardSnapshot*> find_card_snapshots(std::span<const CardSnapshot> card_snapshots,
                                                     std::string_view device) {
  const bool any_nvidia = std::ranges::any_of(
      card_snapshots, [](const CardSnapshot& s) { return s.vendor == Vendor::nvidia; });
  std::vector<const CardSnapshot*> found;
  for (const auto& s : card_snapshots) {
    if (device == s.card.uuid || device == s.card.bus) return {&s};
    if (device != "all" && s.card.all_listed && is_named(s, device, any_nvidia))
      found.push_back(&s);
  }
  return found;
}

}  // namespace sluice::broker
