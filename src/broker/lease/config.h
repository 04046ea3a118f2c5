// Settings of the [broker] section.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/config.h"

namespace sluice::broker {

struct BrokerConfig {
  double default_ttl_s = 60;
  double max_ttl_s = 86400;
  double stale_s = 10;
  double ageing_s = 30;
  double hold_after_s = 20;
  double hold_for_s = 300;
  double yield_within_s = 10;
  std::string escalation = "report";
  bool preempt_other_users = false;
  std::int64_t max_leases_per_peer = 4096;
  std::int64_t max_waiting_per_peer = 512;
  std::int64_t max_cpu_leases_per_peer = 1024;
  std::int64_t max_leases_per_agent = 2048;
  double max_gb_per_peer = 0;
  double cpu_ttl_s = 60;
  std::map<std::string, double> quotas_gb;
  std::map<std::string, double> reservations_gb;
  bool cgroups = false;
  std::string mps_dir = "/tmp/nvidia-mps";
  std::map<std::string, std::string> plans;
  std::string durability = "process";

  static constexpr auto fields() {
    using C = BrokerConfig;
    return std::tuple{
        Field{"default_ttl_s", &C::default_ttl_s,
              "a lease ends this long after its last renewal, where the request does not say"}
            .range(1, 86400)
            .live(),
        Field{"max_ttl_s", &C::max_ttl_s, "longest that a request may ask for"}
            .range(1, 86400)
            .live(),
        Field{"stale_s", &C::stale_s,
              "nothing is promised on a GPU whose last sample is older than this"}
            .range(1, 600)
            .live(),
        Field{"ageing_s", &C::ageing_s, "waiting this long counts as one step of priority"}
            .range(1, 86400)
            .live(),
        Field{"hold_after_s", &C::hold_after_s,
              "a request that waited this long has capacity kept for it"}
            .range(0, 86400)
            .live(),
        Field{"hold_for_s", &C::hold_for_s,
              "capacity is kept for the requests of a peer this long at most, then only a fifth of "
              "the time"}
            .range(1, 86400)
            .live(),
        Field{"yield_within_s", &C::yield_within_s,
              "time a holder gets to give memory back when asked"}
            .range(0.1, 3600)
            .live(),
        Field{"escalation", &C::escalation,
              "when a holder does not yield in time: report it, revoke the lease, or terminate "
              "the process that holds it"}
            .one_of("report|revoke|terminate")
            .live(),
        Field{
            "preempt_other_users", &C::preempt_other_users,
            "a request may have holders of other users asked to yield; they are never revoked "
            "or terminated for it. Off: only those of the same user, unless an administrator asks"}
            .live(),
        Field{"max_leases_per_peer", &C::max_leases_per_peer,
              "leases that a peer (API key, else user, else address) may hold or wait for at once"}
            .range(1, 25000)
            .live(),
        Field{"max_waiting_per_peer", &C::max_waiting_per_peer,
              "requests of a peer that may wait at once"}
            .range(1, 2500)
            .live(),
        Field{"max_cpu_leases_per_peer", &C::max_cpu_leases_per_peer,
              "leases of a peer that may be on the CPU at once"}
            .range(1, 25000)
            .live(),
        Field{"max_leases_per_agent", &C::max_leases_per_agent,
              "leases that one agent of a peer may have, those on the CPU included"}
            .range(1, 25000)
            .live(),
        Field{"max_gb_per_peer", &C::max_gb_per_peer,
              "GB on GPUs that a peer may hold at once; 0: no limit"}
            .range(0, 65536)
            .live(),
        Field{"cpu_ttl_s", &C::cpu_ttl_s,
              "a lease on the CPU ends this long after its last renewal at the latest"}
            .range(1, 86400)
            .live(),
        Field{"quotas_gb", &C::quotas_gb, "GB an agent of a peer may hold at once"}
            .range(0.001, 65536)
            .live(),
        Field{"reservations_gb", &C::reservations_gb, "GB of GPU memory kept free for an agent"}
            .range(0.001, 65536)
            .live(),
        Field{
            "cgroups", &C::cgroups,
            "let the kernel (AMD, Intel) or the driver (NVIDIA) hold leases to their memory: moves "
            "the holder into a control group of its own; takes root"},
        Field{"mps_dir", &C::mps_dir, "pipe folder of the NVIDIA MPS control daemon"}.env(
            "CUDA_MPS_PIPE_DIRECTORY"),
        Field{"plans", &C::plans,
              "plan file (sluice compile) of a model type or agent: the batch size follows it "
              "until there are reports"},
        Field{"durability", &C::durability,
              "what a lease that was answered survives: the end of the server's process, or also "
              "that of the machine (power): then every change waits for the disk"}
            .one_of("process|power"),
    };
  }
  void check_together(std::vector<std::string>& found) const {
    if (default_ttl_s > max_ttl_s)
      found.push_back("default_ttl_s is above max_ttl_s; no request could go without ttl_s");
  }
};

}  // namespace sluice::broker
