// The state of one GPU as the ledger sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice::broker {

struct CardProcess {
  std::int64_t pid;
  std::uint64_t start_time;            // 0 when it could not be read
  std::optional<std::uint64_t> bytes;  // absent where the driver does not report it
  std::string name, user;
};

struct Card {
  std::string uuid, bus, name;
  // Bytes that may be promised at all: less the driver's own share. 0: not known now.
  std::uint64_t total = 0;
  std::uint64_t used = 0;             // physically, by anybody, at sampled_at
  std::optional<Instant> sampled_at;  // when `used` was read; absent: never
  bool usable = false;                // healthy or degraded, and chosen for work
  bool excluded = false;              // not chosen for work: shown, but never promised
  std::string why_unusable;  // "lost since 12:03:11; it returns by itself after its canary"
  std::optional<int> numa_node;
  std::vector<std::string> linked_to;  // uuids reachable by NVLink
  std::vector<CardProcess> processes;
  std::optional<Instant> processes_at;  // when `processes` was read
  std::string index;       // as CUDA counts it by PCI bus; empty where it is not counted
  double slowness = 1;     // the sampler takes so many times longer than it was set to
  bool all_listed = true;  // all GPUs are listed: before that the beginning of a UUID names none
};

}  // namespace sluice::broker
