#include "broker/enforce/sight.h"

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

constexpr double kMostSlowness = 6;  // a sampler that is slower than that knows nothing
constexpr int kGenerations = 16;     // how far up a process's parents are looked at

std::uint64_t bytes_of(double value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; }

bool is_decimal(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// An index counts NVIDIA's cards, as CUDA_VISIBLE_DEVICES does, where there are any.
bool is_counted(const Sight& s, bool any_nvidia) {
  return !any_nvidia || s.vendor == Vendor::nvidia;
}

bool is_named(const Sight& s, std::string_view device, bool any_nvidia) {
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
void add_mps(std::int64_t pid, const ProcessId& holder, const std::string& proc, Sight& sight) {
  auto limit = started_with(pid, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", proc);
  const auto [known, is_new] = sight.mps_limits.try_emplace(holder, limit);
  if (!is_new && known->second != limit) known->second.clear();
}

void add_processes(const device::Readings& readings, const std::set<ProcessId>& holders,
                   const std::string& proc, Sight& sight) {
  sight.card.processes_at = readings.processes_at;
  for (const auto& p : readings.processes) {
    const auto stat = process_stat(p.pid, proc);
    ProcessId id{p.pid, stat ? stat->start_time : 0};
    if (stat && !holders.empty()) id = owner_of(id, stat->parent, holders, proc);
    if (p.kind == "mps") add_mps(p.pid, id, proc, sight);
    sight.card.processes.push_back({id.first, id.second, p.memory, p.name, p.user});
  }
}

void add_memory(const watch::GpuView& view, const device::GpuConfig& gpu, Sight& sight) {
  const auto& r = view.readings;
  auto total = r.value(Metric::memory_total)
                   ? bytes_of(*r.value(Metric::memory_total))
                   : view.gpu.memory_total.value_or(bytes_of(gpu.memory_gb * kGiB));
  const auto reserved = r.value(Metric::memory_reserved)
                            ? bytes_of(*r.value(Metric::memory_reserved))
                            : view.gpu.memory_reserved.value_or(0);
  sight.memory_total = total;
  sight.card.total = std::min(total - std::min(total, reserved),
                              bytes_of(static_cast<double>(total) * gpu.memory_fraction));
  if (const auto& used = r.at(Metric::memory_used)) {
    sight.card.used = bytes_of(used->value);
    sight.card.sampled_at = used->at;
  }
}

void judge(const watch::GpuView& view, Sight& sight) {
  const auto state = view.health.state;
  sight.card.usable = state == HealthState::healthy || state == HealthState::degraded;
  if (!sight.card.usable)
    sight.card.why_unusable =
        fmt::format("{}: {}", to_string(state),
                    view.health.cause.empty() ? "it returns after its canary" : view.health.cause);
}

void exclude(const watch::GpuView& view, const device::GpuConfig& gpu, bool any_nvidia,
             Sight& sight) {
  const auto say = [&](const char* why) {
    sight.card.excluded = true;
    sight.card.usable = false;
    sight.card.why_unusable = why;
  };
  if (!gpu.enabled) return say("gpu.enabled is false");
  if (view.gpu.mig && view.gpu.mig->enabled)
    return say("it is split by MIG, and leases are of whole GPUs");
  const bool is_chosen = std::ranges::any_of(
      gpu.devices, [&](const Ident& d) { return is_named(sight, d.text, any_nvidia); });
  if (!is_chosen) say("gpu.devices leaves it out");
}

void add_links(const watch::Snapshot& snapshot, std::vector<Sight>& sights) {
  std::map<std::string_view, std::string_view> uuid_at;
  for (const auto& s : sights) uuid_at.emplace(s.card.bus, s.card.uuid);
  for (std::size_t i = 0; i < sights.size(); ++i) {
    std::set<std::string> linked;
    for (const auto& link : snapshot.gpus[i].gpu.nvlinks)
      if (const auto peer = uuid_at.find(link.peer_bus); link.active && peer != uuid_at.end())
        linked.emplace(peer->second);
    sights[i].card.linked_to.assign(linked.begin(), linked.end());
  }
}

}  // namespace

std::vector<Sight> sights_of(const watch::Snapshot& snapshot, const device::GpuConfig& gpu,
                             const std::set<ProcessId>& holders, const std::string& proc) {
  const bool any_nvidia = std::ranges::any_of(
      snapshot.gpus, [](const auto& g) { return g.gpu.vendor == Vendor::nvidia; });
  std::map<Vendor, int> count;
  std::vector<Sight> sights;
  const bool has_all = snapshot.has_all_gpus;
  if (!has_all && std::ranges::any_of(gpu.devices, is_decimal, &Ident::text)) return sights;
  for (const auto& view : snapshot.gpus) {  // by bus
    Sight s;
    s.card.uuid = view.gpu.uuid, s.card.bus = view.gpu.bus, s.card.name = view.gpu.name;
    s.card.numa_node = view.gpu.numa_node;
    s.vendor = view.gpu.vendor;
    if (has_all) s.index = count[s.vendor]++;
    if (s.index && is_counted(s, any_nvidia)) s.card.index = std::to_string(*s.index);
    s.card.among_all = has_all;
    s.card.slowness = std::clamp(snapshot.sampler.stretch, 1.0, kMostSlowness);
    add_memory(view, gpu, s);
    add_processes(view.readings, holders, proc, s);
    judge(view, s);
    exclude(view, gpu, any_nvidia, s);
    sights.push_back(std::move(s));
  }
  add_links(snapshot, sights);
  return sights;
}

std::vector<const Sight*> find_sights(std::span<const Sight> sights, std::string_view device) {
  const bool any_nvidia =
      std::ranges::any_of(sights, [](const Sight& s) { return s.vendor == Vendor::nvidia; });
  std::vector<const Sight*> found;
  for (const auto& s : sights) {
    if (device == s.card.uuid || device == s.card.bus) return {&s};
    if (device != "all" && s.card.among_all && is_named(s, device, any_nvidia)) found.push_back(&s);
  }
  return found;
}

}  // namespace sluice::broker
