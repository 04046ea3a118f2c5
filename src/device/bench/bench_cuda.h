// Inside the GPU benchmarks: what their files share. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/bench/bench_stats.h"
#include "device/cuda/check.h"
#include "device/cuda/stream.h"

namespace sluice::device {

class Event {
 public:
  Event() {
    cudaEvent_t raw = nullptr;
    check(cudaEventCreate(&raw));
    handle_.reset(raw);
  }
  void record(const Stream& stream) const { check(cudaEventRecord(handle_.get(), stream.get())); }

  // Seconds between two recorded events; waits for the second.
  static double between(const Event& from, const Event& to) {
    check(cudaEventSynchronize(to.handle_.get()));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, from.handle_.get(), to.handle_.get()));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const noexcept {
      check_in_destructor(cudaEventDestroy(event));
    }
  };
  std::unique_ptr<CUevent_st, Destroy> handle_;
};

// Seconds of each of `repeats` runs of `work`, by events on the device's clock.
// All are enqueued before the first is waited for, so the device never idles
// between them; `warm_ups` run first and are not counted.
std::vector<double> timed_on_device(const Stream& stream, std::size_t warm_ups, std::size_t repeats,
                                    const std::function<void()>& work);

// The context of a measurement. Lives as long as the benchmark of one GPU.
struct BenchDevice {
  const Stream& stream;
  const BenchOptions& options;
  std::optional<Card> card;
  std::string bus;
  std::size_t free_bytes = 0;
};

// One figure: everything about it in a row of the table in bench_cuda.cc.
using Measure = BenchRow (*)(const BenchDevice& device, BenchName what);

BenchRow bench_device_copy(const BenchDevice& device, BenchName what);
BenchRow bench_h2d_pageable(const BenchDevice& device, BenchName what);
BenchRow bench_h2d_pinned(const BenchDevice& device, BenchName what);
BenchRow bench_d2h_pageable(const BenchDevice& device, BenchName what);
BenchRow bench_d2h_pinned(const BenchDevice& device, BenchName what);
template <Precision precision>
BenchRow bench_gemm(const BenchDevice& device, BenchName what);
BenchRow bench_launch(const BenchDevice& device, BenchName what);
BenchRow bench_launch_sync(const BenchDevice& device, BenchName what);
BenchRow bench_graph_launch(const BenchDevice& device, BenchName what);
BenchRow bench_graph_node(const BenchDevice& device, BenchName what);

}  // namespace sluice::device
