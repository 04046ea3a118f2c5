#include "serve/exposition.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <span>
#include <sstream>

#include "base/utf8.h"

namespace sluice::serve {

namespace {

using device::Kind;
using device::MetricInfo;
using device::Scope;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using watch::GpuView;
using watch::Snapshot;

// Bounds of the histogram on /metrics: every few of the finer ones we count in.
constexpr double kHistogramBounds[] = {1e-5,   2.5e-5, 5e-5, 1e-4,   2.5e-4, 5e-4, 1e-3,
                                       2.5e-3, 5e-3,   1e-2, 2.5e-2, 5e-2,   0.1,  0.25,
                                       0.5,    1,      2.5,  5,      10};

// Prometheus rejects a whole page for one byte that is no UTF-8; a process may be named so.
std::string label_text(std::string_view text) {
  std::string out(text);
  const bool valid = !first_invalid_utf8(text);
  for (auto& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || (!valid && static_cast<unsigned char>(c) >= 0x80))
      c = '?';
  return out;
}

class Page {
 public:
  MetricFamily& family(std::string_view name, std::string_view help, MetricType type) {
    families_.push_back({std::string(name), std::string(help), type, {}});
    return families_.back();
  }
  void one(std::string_view name, std::string_view help, MetricType type, double value,
           Labels labels = {}) {
    add(family(name, help, type), value, std::move(labels));
  }
  static void add(MetricFamily& to, double value, Labels labels) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = metric.counter.value = metric.untyped.value = value;
    to.metric.push_back(std::move(metric));
  }
  std::string text() {
    std::erase_if(families_, [](const auto& f) { return f.metric.empty(); });
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(
        out, {std::move_iterator(families_.begin()), std::move_iterator(families_.end())});
    return std::move(out).str();
  }

 private:
  std::deque<MetricFamily> families_;  // references to its members stay good
};

Labels our_labels(const GpuView& g) {
  return {{"uuid", label_text(g.gpu.uuid)}, {"bus", g.gpu.bus}, {"name", label_text(g.gpu.name)}};
}

Labels with(Labels labels, std::string_view name, std::string_view value) {
  labels.push_back({std::string(name), label_text(value)});
  return labels;
}

struct Context {
  const Snapshot& snapshot;
  const About& about;
  const ExpositionOptions& options;
  Instant now;
};

// DCGM knows NVIDIA's GPUs alone and numbers those.
Labels dcgm_labels(const Context& c, std::size_t index) {
  const auto& g = c.snapshot.gpus[index].gpu;
  const auto before = std::span(c.snapshot.gpus).first(index);
  const auto number = std::to_string(std::ranges::count(
      before, device::Vendor::nvidia, [](const GpuView& v) { return v.gpu.vendor; }));
  Labels labels = {{"gpu", number},
                   {"UUID", label_text(g.uuid)},
                   {"pci_bus_id", g.bus},
                   {"device", "nvidia" + number},
                   {"Hostname", label_text(c.about.host_name)}};
  if (c.options.all_of_dcgm) labels.push_back({"modelName", label_text(g.name)});
  return labels;
}

bool is_lost(const GpuView& g) { return g.health.state == device::HealthState::lost; }

// Under our name a counter is one; under a foreign name that does not end in
// _total it stays untyped, which every query takes.
MetricType our_type(const MetricInfo& m) {
  return m.kind == Kind::counter ? MetricType::Counter : MetricType::Gauge;
}
MetricType foreign_type(const MetricInfo& m) {
  return m.kind == Kind::counter ? MetricType::Untyped : MetricType::Gauge;
}

template <class Add>
void for_each_value(const Context& c, const MetricInfo& m, Add add) {
  for (std::size_t i = 0; i < c.snapshot.gpus.size(); ++i) {
    const auto& g = c.snapshot.gpus[i];
    const auto value = g.readings.value(m.id);
    if (value && std::isfinite(*value) && !is_lost(g)) add(i, g, *value);
  }
}

void gpu_metric(Page& page, const Context& c, const MetricInfo& m) {
  if (!m.prometheus.empty()) {
    auto& ours = page.family(m.prometheus, m.help, our_type(m));
    for_each_value(
        c, m, [&](std::size_t, const GpuView& g, double v) { Page::add(ours, v, our_labels(g)); });
  }
  if (!m.dcgm.empty() && (c.options.all_of_dcgm || !m.dcgm.ends_with("_COUNTER"))) {
    auto& dcgm = page.family(m.dcgm, m.help, foreign_type(m));
    for_each_value(c, m, [&](std::size_t i, const GpuView& g, double v) {
      if (g.gpu.vendor == device::Vendor::nvidia)
        Page::add(dcgm, v * m.dcgm_scale, dcgm_labels(c, i));
    });
  }
  if (!m.triton.empty()) {
    auto& triton = page.family(m.triton, m.help, foreign_type(m));
    for_each_value(c, m, [&](std::size_t, const GpuView& g, double v) {
      Page::add(triton, v * m.triton_scale, {{"gpu_uuid", label_text(g.gpu.uuid)}});
    });
  }
}

void host_metric(Page& page, const device::Readings& readings, const MetricInfo& m) {
  const auto value = readings.value(m.id);
  if (!value || !std::isfinite(*value)) return;
  if (!m.prometheus.empty()) page.one(m.prometheus, m.help, our_type(m), *value);
  if (!m.triton.empty()) page.one(m.triton, m.help, foreign_type(m), *value * m.triton_scale);
}

void readings(Page& page, const Context& c) {
  for (const auto& m : device::metrics()) {
    switch (m.scope) {
      case Scope::gpu: gpu_metric(page, c, m); break;
      case Scope::cpu: host_metric(page, c.snapshot.host, m); break;
      case Scope::server: host_metric(page, c.snapshot.server, m); break;
      case Scope::owner: break;  // no metric has it
    }
  }
}

void health(Page& page, const Context& c) {
  using enum device::HealthState;
  auto& info = page.family("sluice_gpu_info", "What the GPU is; always 1", MetricType::Gauge);
  auto& state = page.family("sluice_gpu_health_state",
                            "1 for the state the GPU is in, 0 for the others", MetricType::Gauge);
  auto& age = page.family("sluice_gpu_sample_age_seconds",
                          "Seconds since the driver last answered for the GPU", MetricType::Gauge);
  auto& ghost = page.family("sluice_gpu_ghost_utilization",
                            "1 when full utilisation is shown and nothing runs", MetricType::Gauge);
  for (const auto& g : c.snapshot.gpus) {
    Page::add(info, 1,
              with(with(our_labels(g), "vendor", device::to_string(g.gpu.vendor)), "driver_version",
                   g.gpu.driver_version));
    for (const auto s : {healthy, degraded, lost, probation})
      Page::add(state, g.health.state == s, with(our_labels(g), "state", device::to_string(s)));
    if (g.sampled_at) Page::add(age, seconds_between(*g.sampled_at, c.now), our_labels(g));
    Page::add(ghost, g.ghost_utilization, our_labels(g));
  }
}

// Metrics per process: GPUs are shared, and device-wide numbers name no process.
void processes(Page& page, const Context& c) {
  auto& memory = page.family("sluice_gpu_process_memory_bytes",
                             "Device memory that one process holds", MetricType::Gauge);
  auto& use = page.family("sluice_gpu_process_utilization_percent",
                          "Share of time the process's kernels ran", MetricType::Gauge);
  for (const auto& g : c.snapshot.gpus) {
    if (is_lost(g)) continue;
    for (const auto& p : g.readings.processes) {
      const Labels labels = {{"uuid", label_text(g.gpu.uuid)},
                             {"pid", std::to_string(p.pid)},
                             {"process", label_text(p.name)},
                             {"user", label_text(p.user)},
                             {"kind", p.kind}};
      if (p.memory) Page::add(memory, static_cast<double>(*p.memory), labels);
      if (p.utilization) Page::add(use, *p.utilization, labels);
    }
  }
}

void alerts(Page& page, const Context& c) {
  auto& firing =
      page.family("sluice_alert_firing", "1 for each alert that is active", MetricType::Gauge);
  for (const auto& alert : c.snapshot.alerts)
    Page::add(firing, 1,
              {{"rule", label_text(alert.rule)},
               {"target", label_text(alert.device)},
               {"severity", std::string(to_string(alert.severity))},
               {"silenced", alert.silenced_until ? "true" : "false"}});
  page.one("sluice_alerts_active", "Alerts that are active", MetricType::Gauge,
           static_cast<double>(c.snapshot.alerts.size()));
}

void sampler(Page& page, const Context& c) {
  const auto& s = c.snapshot.sampler;
  const auto gauge = MetricType::Gauge;
  const auto counter = MetricType::Counter;
  page.one("sluice_sampler_up", "1 while the sampler process runs", gauge, s.pid != 0);
  page.one("sluice_sampler_core_ratio", "Share of one core the sampler takes", gauge, s.core_share);
  page.one("sluice_sampler_driver_ratio", "Share of time the sampler spends inside driver calls",
           gauge, s.driver_share);
  page.one("sluice_sampler_interval_scale",
           "Factor on the sampling intervals that keeps the sampler within its budget", gauge,
           s.interval_scale);
  page.one("sluice_sampler_calls_total", "Driver calls made", counter,
           static_cast<double>(s.calls));
  page.one("sluice_sampler_errors_total", "Driver calls that failed", counter,
           static_cast<double>(s.errors));
  page.one("sluice_sampler_restarts_total", "Times the sampler had to be started again", counter,
           static_cast<double>(s.restarts));
  page.one("sluice_snapshot_age_seconds", "Seconds since the machine was last looked at", gauge,
           seconds_between(c.snapshot.at, c.now));
}

void latency(Page& page, const Traffic::Totals& t) {
  auto& family = page.family("sluice_http_request_duration_seconds",
                             "From the arrival of a request to the last byte of its answer",
                             MetricType::Histogram);
  ClientMetric metric;
  auto& histogram = metric.histogram;
  const auto fine = latency_bounds();
  std::size_t at = 0;
  std::uint64_t below = 0;
  for (const double bound : kHistogramBounds) {
    while (at < fine.size() && fine[at] <= bound * 1.0001) below += t.latency[at++];
    histogram.bucket.push_back({below, bound});
  }
  for (const auto n : t.latency) histogram.sample_count += n;
  histogram.bucket.push_back({histogram.sample_count, INFINITY});
  histogram.sample_sum = t.latency_sum_s;
  family.metric.push_back(std::move(metric));
}

void server(Page& page, const Context& c, const Traffic::Totals& t) {
  page.one("sluice_build_info", "The program's version; always 1", MetricType::Gauge, 1,
           {{"version", c.about.version}});
  page.one("sluice_uptime_seconds", "Seconds since the server started", MetricType::Gauge,
           seconds_between(c.about.started, c.now));
  auto& requests = page.family("sluice_http_requests_total",
                               "Requests answered, by route and status", MetricType::Counter);
  for (const auto& row : t.requests)
    Page::add(requests, static_cast<double>(row.count),
              {{"route", std::string(row.route)},
               {"code", row.status == 0 ? "other" : std::to_string(row.status)}});
  latency(page, t);
  page.one("sluice_http_connections", "Connections open now", MetricType::Gauge,
           static_cast<double>(t.connections));
  page.one("sluice_http_streams", "Event streams open now", MetricType::Gauge,
           static_cast<double>(t.streams));
  page.one("sluice_http_sent_bytes_total", "Bytes sent", MetricType::Counter,
           static_cast<double>(t.bytes_sent));
  page.one("sluice_http_refused_connections_total", "Connections refused for being too many",
           MetricType::Counter, static_cast<double>(t.refused));
  page.one("sluice_http_timeouts_total", "Connections closed for being too slow",
           MetricType::Counter, static_cast<double>(t.timed_out));
  page.one("sluice_http_wrong_keys_total", "Requests with a wrong API or admin key",
           MetricType::Counter, static_cast<double>(t.wrong_keys));
  page.one("sluice_http_throttled_keys_total",
           "Requests whose key was not looked at, after too many wrong ones", MetricType::Counter,
           static_cast<double>(t.throttled_keys));
}

}  // namespace

std::string exposition(const Snapshot& snapshot, const Traffic::Totals& traffic, const About& about,
                       const ExpositionOptions& options, Instant now) {
  const Context c{snapshot, about, options, now};
  Page page;
  readings(page, c);
  health(page, c);
  processes(page, c);
  alerts(page, c);
  sampler(page, c);
  server(page, c, traffic);
  return page.text();
}

}  // namespace sluice::serve
