// The rules everyone starts with. The first five thresholds are the ones people
// ask for (utilization 95 %, memory 90 %, temperature 80 C, errors 5 %, speed
// 20 %); the others follow from what the device layer reports.
#include "base/bytes.h"
#include "watch/alert.h"

namespace sluice::watch {

namespace {

// for_s is short where the value itself is already judged (health has its own
// hysteresis) and long where a moment's excess is ordinary.
std::vector<Rule> load_rules() {
  return {
      {"gpu-utilization", "utilization", "above", 95, 90, 60, Severity::info,
       "{device} has been busy {value} of the time; new work waits. Busiest: {process}.",
       "Move work from {device} to another GPU, or lower the batch size or rate of {process}.", "*",
       true},
      {"gpu-memory", "memory_percent", "above", 90, 85, 10, Severity::warning,
       "{value} of the memory of {device} is in use; the largest user is {process}.",
       "Stop or shrink {process}, or give it a smaller batch or memory limit, before an "
       "allocation fails.",
       "*", true},
      {"gpu-temperature", "temperature", "above", 80, 75, 10, Severity::warning,
       "{device} is at {value}: airflow, fan or room temperature does not match its load.",
       "Check fans and airflow at {bus}; until then lower its power limit: "
       "sluice tune --power-limit W.",
       "*", true},
      {"gpu-thermal-margin", "temperature_margin", "below", 3, 8, 5, Severity::critical,
       "{device} is {value} away from slowing itself down.",
       "Take load off {device} now and check its cooling at {bus}.", "*", true},
      {"server-errors", "request_error_rate", "above", 5, 2, 10, Severity::critical,
       "{value} of the requests were answered with a 5xx status.",
       "See the server's log for the first error, and /gpu-health for a device that failed.", "*",
       true},
  };
}

std::vector<Rule> speed_rules() {
  return {
      {"gpu-slow", "clock_ratio", "drops_percent", 20, 10, 60, Severity::warning,
       "{device} runs under load at {value} of its top clock; its last hour had {baseline}. "
       "Held back by: {throttle}.",
       "Check its temperature and power limit (sluice doctor); if a power cap was set, "
       "sluice tune --reset lifts it.",
       "*", true},
      {"server-slow", "noticeable_p50", "rises_percent", 25, 10, 120, Severity::warning,
       "Half of the requests take {value} or longer; the last hour had {baseline}, so the server "
       "gives at least 20 % less per connection.",
       "Compare with cpu_utilization and the GPUs' utilization: a busy device, a slower clock or "
       "larger requests explain most rises.",
       "*", true},
  };
}

std::vector<Rule> health_rules() {
  return {
      {"gpu-lost", "lost", "above", 0, 0, 0, Severity::critical, "{health_cause}", "{health_fix}",
       "*", true},
      {"gpu-degraded", "degraded", "above", 0, 0, 0, Severity::warning, "{health_cause}",
       "{health_fix}", "*", true},
      {"gpu-xid", "xid_hardware", "above", 0, 0, 0, Severity::critical,
       "The driver reported {xid} on {device}.",
       "Do what the health of {device} asks for; replace the card if this keeps coming back.", "*",
       true},
      {"gpu-xid-application", "xid_application", "above", 0, 0, 0, Severity::info,
       "The driver reported {xid} on {device}, usually a fault of the program that ran there.",
       "Look at the log of {process}; run it under compute-sanitizer if it happens again.", "*",
       true},
      {"gpu-xid-notice", "xid_notice", "above", 0, 0, 0, Severity::warning,
       "The driver reported {xid} on {device}: the hardware's doing, not a program's.",
       "sluice doctor shows its memory rows, ECC and links; have the card checked if this keeps "
       "coming back.",
       "*", true},
      {"gpu-ecc", "ecc_uncorrected", "increases", 0, 0, 0, Severity::critical,
       "{device} met memory errors that could not be corrected: {value} since the driver loaded. "
       "Results computed there since may be wrong.",
       "Restart what ran on {device}, reset it (nvidia-smi --gpu-reset -i {bus}) and check "
       "rows_pending and rows_failed.",
       "*", true},
      {"gpu-rows-pending", "rows_pending", "above", 0, 0, 0, Severity::warning,
       "{device} has found a bad memory row and will replace it at its next reset.",
       "Reset {device} at {bus} when it is idle: nvidia-smi --gpu-reset -i {bus}.", "*", true},
      {"gpu-rows-failed", "rows_failed", "above", 0, 0, 0, Severity::critical,
       "{device} has no spare rows left for a bad memory row.",
       "Take {device} out of service and have the card at {bus} replaced.", "*", true},
      {"gpu-ghost-utilization", "ghost_utilization", "above", 0, 0, 30, Severity::warning,
       "{device} says it is busy although no process uses it: a latched counter, not load.",
       "Nothing runs there and work may be placed on it; reset {device} (nvidia-smi --gpu-reset "
       "-i {bus}) or reload the driver to clear the counter.",
       "*", true},
  };
}

std::vector<Rule> machine_rules() {
  return {
      {"driver-down", "driver_down", "above", 0, 0, 5, Severity::critical,
       "{driver_cause}: no GPU of this machine can be seen or used.",
       "{driver_fix}. 'sluice doctor' looks closer; the driver is tried again every minute.", "*",
       true},
      {"sampler-down", "sampler_down", "above", 0, 0, 10, Severity::critical,
       "The sampler process is {sampler}; the GPUs' readings are old.",
       "It is restarted by itself. If this stays, a driver call hangs: see dmesg for NVRM lines, "
       "then reset the GPU or reboot.",
       "*", true},
      {"sampler-slow", "sampler_interval_scale", "above", 5, 3, 60, Severity::info,
       "Driver calls are so slow that sampling intervals were scaled to {value} times their "
       "setting.",
       "Enable persistence mode (sluice tune --persistence on), or raise watch.cost_budget.", "*",
       true},
      {"history-down", "history_down", "above", 0, 0, 30, Severity::warning,
       "History cannot be written to disk ({history}); it goes on in memory and ends with this "
       "process.",
       "Free space or repair the permissions of the state folder (--state); writing begins again "
       "by itself within a minute.",
       "*", true},
      {"leases-damaged", "leases_damaged", "above", 0, 0, 0, Severity::critical,
       "{leases}. Leases that were lost are unknown to the server; their holders are notified and "
       "ask "
       "again.",
       "Check the disk, and whether anything but Sluice touched the state folder. Then remove "
       "leases.damage in it: that ends this alert.",
       "*", true},
      {"leases-down", "leases_down", "above", 0, 0, 1, Severity::critical,
       "Leases cannot be stored ({leases}), so none is given or renewed.",
       "Free space or repair the permissions of the state folder (--state); leases are given again "
       "by themselves within a second.",
       "*", true},
      {"host-memory", "host_memory_percent", "above", 90, 85, 30, Severity::warning,
       "{value} of the memory this machine or container may use is taken.",
       "Stop a large process or raise the container's memory limit before the kernel kills one.",
       "*", true},
  };
}

// Ten minutes of it and not less: what loads a model also grows, for a while.
std::vector<Rule> growth_rules() {
  return {
      {"lease-memory-growth", "lease_memory", "grows", 64 * kMiB, 16 * kMiB, 30, Severity::warning,
       "The memory of {owner} ({device}) grows by {growth} since {since}: {value} now; {promised}.",
       "Look for what {owner} keeps: a cache without a bound, results that hold their graph, "
       "tensors in a list. Restart it before the card is full; sluice memory record shows which "
       "blocks stay.",
       "*", true},
      {"pool-memory-growth", "pool_memory", "grows", 64 * kMiB, 16 * kMiB, 30, Severity::warning,
       "The memory pool {owner} of this server grows by {growth} since {since}: {value} now; "
       "{promised}.",
       "Set memory.ceiling_gb for it, so that requests are cut or run on the CPU instead; GET "
       "/gpu-memory shows the pool. Restart the server if nothing of this size is being "
       "calculated.",
       "*", true},
  };
}

}  // namespace

std::vector<Rule> default_rules() {
  std::vector<Rule> all;
  for (auto part : {load_rules, speed_rules, health_rules, machine_rules, growth_rules})
    for (auto& rule : part()) all.push_back(std::move(rule));
  return all;
}

}  // namespace sluice::watch
