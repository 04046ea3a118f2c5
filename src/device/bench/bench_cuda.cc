// The table of GPU measurements and the loop over them.
#include "device/bench/bench_cuda.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace sluice::device {

namespace {

struct Figure {
  BenchName what;
  const char* unit;
  Measure measure;
};

constexpr std::array<Figure, 16> kFigures{{
    {{"device_copy", "device copy"}, "B/s", bench_device_copy},
    {{"h2d_pageable", "host to device, pageable"}, "B/s", bench_h2d_pageable},
    {{"h2d_pinned", "host to device, pinned"}, "B/s", bench_h2d_pinned},
    {{"d2h_pageable", "device to host, pageable"}, "B/s", bench_d2h_pageable},
    {{"d2h_pinned", "device to host, pinned"}, "B/s", bench_d2h_pinned},
    {{"gemm_fp64", "GEMM fp64"}, "FLOP/s", bench_gemm<Precision::fp64>},
    {{"gemm_fp32", "GEMM fp32"}, "FLOP/s", bench_gemm<Precision::fp32>},
    {{"gemm_tf32", "GEMM tf32"}, "FLOP/s", bench_gemm<Precision::tf32>},
    {{"gemm_bf16", "GEMM bf16"}, "FLOP/s", bench_gemm<Precision::bf16>},
    {{"gemm_fp16", "GEMM fp16"}, "FLOP/s", bench_gemm<Precision::fp16>},
    {{"gemm_fp8", "GEMM fp8 e4m3"}, "FLOP/s", bench_gemm<Precision::fp8>},
    {{"gemm_int8", "GEMM int8"}, "OP/s", bench_gemm<Precision::int8>},
    {{"launch", "kernel launch"}, "s", bench_launch},
    {{"launch_sync", "kernel launch and wait"}, "s", bench_launch_sync},
    {{"graph_launch", "graph of 100, launch and wait"}, "s", bench_graph_launch},
    {{"graph_node", "graph of 100, per node"}, "s", bench_graph_node},
}};

constexpr auto kNameList = [] {
  std::array<std::string_view, kFigures.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kFigures[i].what.name;
  return names;
}();

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::string bus_text(int device) {
  char text[32] = {};
  check(cudaDeviceGetPCIBusId(text, sizeof text, device));
  std::string bus = text;
  std::ranges::transform(bus, bus.begin(), [](unsigned char c) { return std::tolower(c); });
  return bus;
}

std::string cuda_text() {
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  return fmt::format("driver {}.{}, runtime {}.{}", driver / 1000, driver % 1000 / 10,
                     runtime / 1000, runtime % 1000 / 10);
}

DeviceId find_device(std::string_view uuid) {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, i));
    if (uuid_text(properties.uuid) == uuid) return DeviceId{i};
  }
  throw Error(Code::not_found, "CUDA sees no GPU " + std::string(uuid));
}

// A fault in one figure leaves the context unusable; the rest then say so too.
BenchRow row_of(const Figure& figure, const BenchDevice& device) {
  try {
    return figure.measure(device, figure.what);
  } catch (const Error& e) {
    return missing_row(figure.what, figure.unit, e.what());
  }
}

}  // namespace

std::vector<double> timed_on_device(const Stream& stream, std::size_t warm_ups, std::size_t repeats,
                                    const std::function<void()>& work) {
  const std::vector<Event> marks(repeats + 1);
  for (std::size_t i = 0; i < warm_ups; ++i) work();
  marks[0].record(stream);
  for (std::size_t i = 0; i < repeats; ++i) {
    work();
    marks[i + 1].record(stream);
  }
  std::vector<double> seconds(repeats);
  for (std::size_t i = 0; i < repeats; ++i) seconds[i] = Event::between(marks[i], marks[i + 1]);
  return seconds;
}

BenchGpus bench_gpus() {
  BenchGpus found;
  int count = 0;
  const auto status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    int driver = 0;
    if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
        driver == 0)
      found.why_none = "no NVIDIA driver on this machine";
    else
      found.why_none = status == cudaSuccess ? "no CUDA device" : cudaGetErrorString(status);
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, i));
    found.gpus.push_back({uuid_text(properties.uuid), bus_text(i), properties.name, cuda_text()});
  }
  return found;
}

std::span<const std::string_view> bench_gpu_names() noexcept { return kNameList; }

std::vector<BenchRow> bench_gpu(std::string_view uuid, const BenchOptions& options,
                                const BenchProgress& progress) {
  const auto id = find_device(uuid);
  const DeviceScope on(id);
  const Stream stream(id);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, id.value));
  BenchDevice device{stream, options, find_card(properties.name, properties.totalGlobalMem),
                     bus_text(id.value)};

  std::vector<Figure> selected;
  std::ranges::copy_if(kFigures, std::back_inserter(selected),
                       [&](const Figure& f) { return options.wants(f.what.name); });
  std::vector<BenchRow> rows;
  for (const auto& figure : selected) {
    progress(figure.what.title, rows.size(), selected.size());
    std::size_t total = 0;
    check(cudaMemGetInfo(&device.free_bytes, &total));
    rows.push_back(row_of(figure, device));
  }
  return rows;
}

}  // namespace sluice::device
