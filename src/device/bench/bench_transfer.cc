// Moving bytes: inside the device, and between it and the host.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "device/bench/bench_cuda.h"
#include "device/bench/bench_kernels.h"
#include "device/cuda/device_buffer.h"
#include "device/sysfs.h"

namespace sluice::device {

namespace {

// ---- inside the device ---------------------------------------------------------

struct CopyMethod {
  const char* name;
  void (*run)(void* to, const void* from, std::size_t bytes, const Stream& stream);
};

template <CopyShape shape>
void by_kernel(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  copy_cuda(to, from, bytes, shape, stream);
}

void by_runtime(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream.get()));
}

constexpr CopyMethod kCopyMethods[] = {
    {"kernel, 4 loads", by_kernel<CopyShape::four>},
    {"kernel, 8 loads", by_kernel<CopyShape::eight>},
    {"kernel, 16 loads", by_kernel<CopyShape::sixteen>},
    {"cudaMemcpyAsync", by_runtime},
};

unsigned long long read_count(const void* counter, const Stream& stream) {
  unsigned long long count = 0;
  check(cudaMemcpyAsync(&count, counter, sizeof count, cudaMemcpyDeviceToHost, stream.get()));
  stream.wait();
  return count;
}

// Every byte compared, over a destination that was overwritten first.
bool copies_right(const CopyMethod& method, void* to, const void* from, std::size_t bytes,
                  const Stream& stream) {
  const auto counter = device_buffer(sizeof(unsigned long long));
  check(cudaMemsetAsync(counter.get(), 0, sizeof(unsigned long long), stream.get()));
  check(cudaMemsetAsync(to, 0xa5, bytes, stream.get()));
  method.run(to, from, bytes, stream);
  count_differences(to, from, bytes, static_cast<unsigned long long*>(counter.get()), stream);
  return read_count(counter.get(), stream) == 0;
}

// ---- between host and device ----------------------------------------------------

enum class Direction { to_device, to_host };

std::optional<double> link_rate(const std::string& bus) {
  const Path link = Path("/sys/bus/pci/devices") / bus;
  const auto speed = read_line(link / "current_link_speed");
  const auto width = read_line(link / "current_link_width");
  return speed && width ? pcie_rate(*speed, *width) : std::nullopt;
}

// Drawn on the device and brought over, which is faster than drawing it here.
void fill_host(void* host, const void* drawn, std::size_t bytes) {
  check(cudaMemcpy(host, drawn, bytes, cudaMemcpyDeviceToHost));
}

// A pageable copy is staged by the driver on the caller's thread: the host's clock
// around it is the time a caller waits. A pinned one is timed on the device.
std::vector<double> time_transfer(const BenchDevice& device, Direction direction, bool pinned,
                                  void* host, void* on_device, std::size_t bytes) {
  const auto kind =
      direction == Direction::to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  void* to = direction == Direction::to_device ? on_device : host;
  const void* from = direction == Direction::to_device ? host : on_device;
  const std::size_t repeats = device.options.quick ? 5 : 15;
  if (pinned)
    return timed_on_device(device.stream, 2, repeats, [&] {
      check(cudaMemcpyAsync(to, from, bytes, kind, device.stream.get()));
    });
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repeats + 2; ++i)
    seconds.push_back(timed([&] {
      check(cudaMemcpy(to, from, bytes, kind));
      check(cudaDeviceSynchronize());  // the last staged piece may still be on its way
    }));
  seconds.erase(seconds.begin(), seconds.begin() + 2);
  return seconds;
}

// Host memory of either sort, touched.
struct HostBuffer {
  HostBuffer(std::size_t bytes, bool pin) {
    if (pin) {
      pinned = pinned_buffer(bytes);
      data = pinned.get();
    } else {
      pageable.resize(bytes, 0x5a);
      data = pageable.data();
    }
  }
  PinnedBuffer pinned;
  std::vector<unsigned char> pageable;
  void* data = nullptr;
};

// Copies the data back and compares it with what was sent.
bool transfer_right(Direction direction, HostBuffer& host, void* on_device, std::size_t bytes,
                    const Stream& stream) {
  std::vector<unsigned char> sent(bytes), arrived(bytes, 0xa5);
  fill_random_bytes(on_device, bytes, 77, stream);
  stream.wait();
  fill_host(sent.data(), on_device, bytes);
  if (direction == Direction::to_device) {
    std::memcpy(host.data, sent.data(), bytes);
    check(cudaMemset(on_device, 0xa5, bytes));
    check(cudaMemcpy(on_device, host.data, bytes, cudaMemcpyHostToDevice));
    fill_host(arrived.data(), on_device, bytes);
  } else {
    std::memset(host.data, 0xa5, bytes);
    check(cudaMemcpy(host.data, on_device, bytes, cudaMemcpyDeviceToHost));
    std::memcpy(arrived.data(), host.data, bytes);
  }
  return sent == arrived;
}

BenchRow transfer_row(const BenchDevice& device, BenchName what, Direction direction, bool pinned) {
  const std::size_t bytes = std::min<std::size_t>(
      std::size_t{device.options.quick ? 64u : 256u} << 20, device.free_bytes / 4);
  HostBuffer host(bytes, pinned);
  const auto on_device = device_buffer(bytes);
  if (!transfer_right(direction, host, on_device.get(), bytes, device.stream))
    return missing_row(what, "B/s", "wrong result: what arrived is not what was sent");
  auto seconds = time_transfer(device, direction, pinned, host.data, on_device.get(), bytes);
  auto row = timed_row(what, "B/s", static_cast<double>(bytes), std::move(seconds));
  row.peak = link_rate(device.bus);
  row.detail = human_bytes(bytes) + " per copy";
  if (row.peak) row.detail += ", peak of the PCIe link as it is now";
  return row;
}

}  // namespace

BenchRow bench_device_copy(const BenchDevice& device, BenchName what) {
  const std::size_t bytes = std::min<std::size_t>(
      std::size_t{device.options.quick ? 512u : 4096u} << 20, device.free_bytes / 4);
  const auto from = device_buffer(bytes), to = device_buffer(bytes);
  fill_random_bytes(from.get(), bytes, 1, device.stream);

  std::optional<BenchRow> best;
  std::string all;
  for (const auto& method : kCopyMethods) {
    if (!copies_right(method, to.get(), from.get(), bytes, device.stream))
      return missing_row(what, "B/s", std::string("wrong result: ") + method.name);
    auto row = timed_row(what, "B/s", 2.0 * static_cast<double>(bytes),
                         timed_on_device(device.stream, 3, device.options.quick ? 5 : 20, [&] {
                           method.run(to.get(), from.get(), bytes, device.stream);
                         }));
    all += fmt::format("; {} {}", method.name, human_rate(row.value.value_or(0), "B"));
    if (!best || row.value > best->value) best = std::move(row);
  }
  best->detail = human_bytes(bytes) + " per copy, bytes read + written" + all;
  if (device.card) best->peak = device.card->bandwidth;
  return *best;
}

BenchRow bench_h2d_pageable(const BenchDevice& device, BenchName what) {
  return transfer_row(device, what, Direction::to_device, false);
}
BenchRow bench_h2d_pinned(const BenchDevice& device, BenchName what) {
  return transfer_row(device, what, Direction::to_device, true);
}
BenchRow bench_d2h_pageable(const BenchDevice& device, BenchName what) {
  return transfer_row(device, what, Direction::to_host, false);
}
BenchRow bench_d2h_pinned(const BenchDevice& device, BenchName what) {
  return transfer_row(device, what, Direction::to_host, true);
}

}  // namespace sluice::device
