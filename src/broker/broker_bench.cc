// The latency of a grant in process, with the store on disk: request, placement, write and
// response. The targets are a p50 of 50 us and a p99 of 500 us; the mean that the benchmark
// itself prints includes the release between two grants.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <thread>

#include "broker/broker_for_tests.h"

namespace sluice::broker {
namespace {

double percentile(std::vector<double>& sorted, double p) {
  return sorted.empty()
             ? 0
             : sorted[static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) * p)];
}

void show(benchmark::State& state, std::vector<double> us) {
  std::ranges::sort(us);
  state.counters["grants"] = static_cast<double>(us.size());
  state.counters["p50_us"] = percentile(us, 0.5);
  state.counters["p99_us"] = percentile(us, 0.99);
  state.counters["p999_us"] = percentile(us, 0.999);
  state.counters["max_us"] = us.empty() ? 0 : us.back();
}

// Eight unlike GPUs, sampled now and then as a monitor does.
struct Bench {
  explicit Bench(std::int64_t live, const char* durability = "process") {
    host.options.state_dir = folder.path;
    host.options.config.durability = durability;
    host.options.threads = true;
    host.options.now = [] { return Steady::now(); };
    host.options.wall = [] { return std::chrono::system_clock::now(); };
    broker = std::make_unique<Broker>(host.options);
    sample();
    auto w = lease_request("resident", 0.05);
    w.peer = "uid:1000";
    w.holder.pid = ::getpid();
    w.ttl = Seconds(86400);
    for (std::int64_t i = 0; i < live; ++i) broker->request(w);
  }
  void sample() {
    ++host.snapshot.sequence;
    for (auto& g : host.snapshot.gpus) {
      g.readings.set(device::Metric::memory_used, 0, Steady::now());
      g.readings.processes_at = Steady::now();
    }
    broker->observe(host.snapshot);
  }
  TemporaryFolder folder;
  Host host{{16, 24, 24, 32, 48, 48, 80, 80}};
  std::unique_ptr<Broker> broker;
};

void grant(benchmark::State& state, Bench& bench) {
  auto w = lease_request("scout", 0.25);
  w.holder = identified({::getpid(), 0, -1, 0}, "/proc");  // as the transport knows its peer
  w.peer = "uid:1000";
  std::vector<double> us;
  std::vector<Token> held;
  auto sampled = Steady::now();
  for (auto _ : state) {
    const auto start = Steady::now();
    const auto response = bench.broker->request(w);
    if (response.verdict == Verdict::granted) {
      us.push_back(seconds_between(start, Steady::now()) * 1e6);
      held.push_back(token_of(response.lease));
    }
    if (held.size() > 16) {
      bench.broker->release(held.front());
      held.erase(held.begin());
    }
    if (seconds_between(sampled, Steady::now()) > 0.02) bench.sample(), sampled = Steady::now();
  }
  show(state, std::move(us));
}
void BM_GrantInProcess(benchmark::State& state) {
  Bench bench(state.range(0));
  grant(state, bench);
}
BENCHMARK(BM_GrantInProcess)
    ->ArgName("live")
    ->Arg(0)
    ->Arg(100)
    ->Arg(1000)
    ->Iterations(20000)
    ->Unit(benchmark::kMicrosecond);

// Every change waits for the disk under the folder of temporary files (TMPDIR).
void BM_GrantThatSurvivesAPowerCut(benchmark::State& state) {
  Bench bench(0, "power");
  grant(state, bench);
}
BENCHMARK(BM_GrantThatSurvivesAPowerCut)->Iterations(2000)->Unit(benchmark::kMicrosecond);

void BM_RenewInProcess(benchmark::State& state) {
  Bench bench(state.range(0));
  auto token = token_of(bench.broker->request(lease_request("scout", 0.25)).lease);
  std::vector<double> us;
  for (auto _ : state) {
    const auto start = Steady::now();
    token = token_of(bench.broker->renew(token).lease);
    us.push_back(seconds_between(start, Steady::now()) * 1e6);
  }
  show(state, std::move(us));
}
BENCHMARK(BM_RenewInProcess)
    ->ArgName("live")
    ->Arg(0)
    ->Arg(1000)
    ->Iterations(20000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::broker
