// The common prologue of every exported function. The entry_*.cc files are the library's
// face: each function checks its arguments as NVML does and copies out a value.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>

#include "machine.h"

namespace sluice::fake {

using nvml::Device;
using nvml::Return;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline u32 milli(double value) { return static_cast<u32>(std::lround(value * 1000)); }

// The loaded machine; null until nvmlInit, and after the last nvmlShutdown.
std::shared_ptr<Machine> machine();

// Calls f(machine) unless the scenario has something else in store for `call`.
template <class F>
Return handle_call(std::string_view call, F f) {
  const auto m = machine();
  if (!m) return Return::uninitialized;
  const Return code = m->enter(call, nullptr);
  return code == Return::success ? f(*m) : code;
}

// Calls f(machine, gpu) likewise.
template <class F>
Return handle_call(std::string_view call, Device device, F f) {
  const auto m = machine();
  if (!m) return Return::uninitialized;
  const GpuSpec* gpu = m->find(device);
  if (gpu == nullptr) return Return::invalid_argument;
  const Return code = m->enter(call, gpu);
  return code == Return::success ? f(*m, *gpu) : code;
}

template <class T, class V>
Return give(T* out, V value) {
  if (out == nullptr) return Return::invalid_argument;
  *out = static_cast<T>(value);
  return Return::success;
}

inline Return give_text(std::string_view text, char* out, u32 size) {
  if (out == nullptr) return Return::invalid_argument;
  if (size <= text.size()) return Return::insufficient_size;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return Return::success;
}

// NVML's protocol for lists: *count is the capacity on the way in and the length on
// the way out.
template <class T>
Return give_list(const std::vector<T>& items, u32* count, void* out) {
  if (count == nullptr) return Return::invalid_argument;
  const u32 capacity = *count;
  *count = static_cast<u32>(items.size());
  if (items.empty()) return Return::success;
  if (capacity < items.size() || out == nullptr) return Return::insufficient_size;
  std::memcpy(out, items.data(), items.size() * sizeof(T));
  return Return::success;
}

}  // namespace sluice::fake
