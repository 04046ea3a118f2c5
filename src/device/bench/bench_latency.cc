// Launch latency: an empty kernel, alone, in a row,
// and a hundred of them as one graph.
#include <array>
#include <memory>

#include "device/bench/bench_cuda.h"
#include "device/bench/bench_kernels.h"

namespace sluice::device {

namespace {

constexpr std::size_t kNodes = 100;

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept {
    check_in_destructor(cudaGraphDestroy(graph));
  }
  void operator()(cudaGraphExec_t graph) const noexcept {
    check_in_destructor(cudaGraphExecDestroy(graph));
  }
};
using Graph = std::unique_ptr<CUgraph_st, DestroyGraph>;
using ReadyGraph = std::unique_ptr<CUgraphExec_st, DestroyGraph>;

// kNodes empty kernels, one after the other.
ReadyGraph chain_of_nothing(const Stream& stream) {
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  for (std::size_t i = 0; i < kNodes; ++i) launch_nothing(stream);
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(stream.get(), &captured));
  const Graph graph(captured);
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph.get(), 0));
  return ReadyGraph(ready);
}

std::vector<double> time_graph(const BenchDevice& device) {
  const auto graph = chain_of_nothing(device.stream);
  const std::size_t repeats = device.options.quick ? 50 : 500;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repeats + 10; ++i)
    seconds.push_back(timed([&] {
      check(cudaGraphLaunch(graph.get(), device.stream.get()));
      device.stream.wait();
    }));
  seconds.erase(seconds.begin(), seconds.begin() + 10);
  return seconds;
}

}  // namespace

BenchRow bench_launch(const BenchDevice& device, BenchName what) {
  constexpr std::size_t kInARow = 500;  // fewer than the queue holds, so no call blocks on it
  std::vector<double> seconds;
  for (std::size_t i = 0; i < (device.options.quick ? 7u : 25u); ++i) {
    const double all = timed([&] {
      for (std::size_t k = 0; k < kInARow; ++k) launch_nothing(device.stream);
      device.stream.wait();
    });
    if (i >= 2) seconds.push_back(all / kInARow);
  }
  auto row = timed_row(what, "s", std::nullopt, std::move(seconds));
  row.detail = "empty kernel, 500 in a row on one stream, per kernel";
  return row;
}

BenchRow bench_launch_sync(const BenchDevice& device, BenchName what) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < (device.options.quick ? 110u : 1010u); ++i) {
    const double one = timed([&] {
      launch_nothing(device.stream);
      device.stream.wait();
    });
    if (i >= 10) seconds.push_back(one);
  }
  auto row = timed_row(what, "s", std::nullopt, std::move(seconds));
  row.detail = "empty kernel, from the call until the host knows it is done";
  return row;
}

BenchRow bench_graph_launch(const BenchDevice& device, BenchName what) {
  auto row = timed_row(what, "s", std::nullopt, time_graph(device));
  row.detail = "100 empty kernels in a chain, from the call until the host knows they are done";
  return row;
}

BenchRow bench_graph_node(const BenchDevice& device, BenchName what) {
  const auto graph = chain_of_nothing(device.stream);
  auto seconds = timed_on_device(device.stream, 10, device.options.quick ? 50 : 500,
                                 [&] { check(cudaGraphLaunch(graph.get(), device.stream.get())); });
  for (auto& s : seconds) s /= kNodes;
  auto row = timed_row(what, "s", std::nullopt, std::move(seconds));
  row.detail = "graphs of 100 empty kernels back to back, device time per kernel";
  return row;
}

}  // namespace sluice::device
