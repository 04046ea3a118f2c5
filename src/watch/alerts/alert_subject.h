// The subjects of the rules: the devices of a snapshot, one by one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/alert.h"
#include "watch/snapshot.h"

namespace sluice::watch {

// Points into the snapshot, which must outlive it.
struct Subject {
  std::string id;     // uuid, "cpu", "server" or an owner's
  std::string title;  // "NVIDIA H200 0000:04:00.0", "CPU", "server", "lease 12 of scout"
  device::Scope scope;
  const Snapshot* snapshot;
  const device::Readings* readings;
  const GpuView* gpu;                  // null for all others
  const OwnerMemory* owner = nullptr;  // likewise

  bool lost() const noexcept;
};

std::vector<Subject> subjects_of(const Snapshot& snapshot);

// The newest value of a metric or derived metric, with the time it was taken;
// nothing when it is not known. Staleness is the caller's to judge.
std::optional<device::Timed> value_of(const Subject& subject, std::string_view metric);

// Why the metric says nothing about this device now, whatever its value: "the GPU
// is lost", or empty.
std::string_view why_void(const Subject& subject, std::string_view metric);

// The process that uses most of the GPU (SM time, else memory), or null.
const device::Process* top_process(const Subject& subject);

// The newest XID of the kind the metric counts (any for other metrics), or null.
const device::Xid* newest_xid(const Subject& subject, std::string_view metric);

}  // namespace sluice::watch
