#include "scenario.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/nearest.h"
#include "device/catalogue.h"
#include "model.h"
#include "scenario_events.h"

namespace sluice::fake {

namespace {

std::string made_up_uuid(std::size_t index) {
  char text[48];
  std::snprintf(text, sizeof text, "GPU-5106ce00-fa4e-4000-8000-%012zx", index + 1);
  return text;
}

std::string made_up_bus(std::size_t index) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02zx:00.0", (0x04 + 0x10 * index) & 0xff);
  return text;
}

GpuSpec from_card(const std::string& key, const std::string& where) {
  const auto card = device::find_profile(key);
  const Model* model = card ? find_model(card->key) : nullptr;
  if (model == nullptr) {
    std::vector<std::string_view> keys;
    for (const auto& c : device::catalogue()) keys.push_back(c.key);
    complain(where, "'" + key + "' is not in the catalogue" + did_you_mean(key, keys));
  }
  GpuSpec gpu;
  gpu.name = model->driver_name;
  gpu.memory_bytes = card->memory_bytes - card->memory_bytes / 256;  // firmware keeps a little
  gpu.compute_major = card->compute_major;
  gpu.compute_minor = card->compute_minor;
  gpu.cores = model->cores;
  gpu.sm_mhz = model->sm_mhz;
  gpu.memory_mhz = model->memory_mhz;
  gpu.power_w = card->board_power_w;
  gpu.nvlinks = model->nvlinks;
  gpu.nvlink_version = model->nvlink_version;
  gpu.ecc = model->ecc;
  gpu.fan = model->fan;
  gpu.reports_memory = card->key != "jetson-orin";  // shares the host's
  if (card->compute_major >= 8 && model->ecc && card->compute_minor == 0) gpu.mig_instances = 0;
  return gpu;
}

void read_capability(Object& in, GpuSpec& gpu) {
  const std::string text = in.text("compute_capability", "");
  if (text.empty()) return;
  if (std::sscanf(text.c_str(), "%d.%d", &gpu.compute_major, &gpu.compute_minor) != 2)
    complain(in.where("compute_capability"), "must look like \"6.1\"");
}

template <class T>
void override_unsigned(Object& in, const char* key, T& value) {
  value = static_cast<T>(in.integer(key, static_cast<std::int64_t>(value), 0, 1'000'000));
}

void read_overrides(Object& in, GpuSpec& gpu) {
  gpu.name = in.text("name", gpu.name);
  if (const auto gib = in.number("memory_gib", 0.25, 4096))
    gpu.memory_bytes = static_cast<std::uint64_t>(*gib * kGiB);
  read_capability(in, gpu);
  override_unsigned(in, "cores", gpu.cores);
  override_unsigned(in, "sm_max_mhz", gpu.sm_mhz);
  override_unsigned(in, "memory_max_mhz", gpu.memory_mhz);
  gpu.power_w = in.number("power_w", gpu.power_w, 0, 5000);
  gpu.nvlinks = static_cast<unsigned>(in.integer("nvlinks", gpu.nvlinks, 0, nvml::kMaxNvLinks));
  gpu.ecc = in.boolean("ecc", gpu.ecc);
  gpu.persistence = in.boolean("persistence", gpu.persistence);
  gpu.numa_node = static_cast<int>(in.integer("numa_node", 0, 0, 63));
  gpu.ecc_aggregate = in.integer("ecc_aggregate", 0, 0, 1'000'000'000);
  if (in.has("mig_instances"))
    gpu.mig_instances = static_cast<unsigned>(in.integer("mig_instances", 0, 0, 7));
}

std::optional<Curve> curve(Object& in, const char* key) {
  const Json* found = in.find(key);
  return found == nullptr ? std::nullopt : std::optional(Curve::parse(*found, in.where(key)));
}

Load read_load(Object& gpu) {
  Load load;
  const Json* found = gpu.find("load");
  if (found == nullptr) return load;
  Object in(*found, gpu.where("load"));
  load.utilization = curve(in, "utilization").value_or(Curve::constant(0));
  load.memory_activity = curve(in, "memory_activity");
  load.memory_gib = curve(in, "memory_gib");
  load.temperature = curve(in, "temperature");
  load.power = curve(in, "power");
  load.sm_clock = curve(in, "sm_clock");
  load.fan = curve(in, "fan");
  in.finish();
  return load;
}

ProcessSpec read_process(Object in) {
  ProcessSpec p{};
  p.pid = static_cast<std::uint32_t>(in.integer("pid", 0, 0, 1 << 22));
  if (p.pid == 0) complain(in.where(), "'pid' is missing");
  p.name = in.text("name", "");
  p.kind = in.text("kind", "compute");
  if (p.kind != "compute" && p.kind != "graphics" && p.kind != "mps")
    complain(in.where("kind"), "must be compute, graphics or mps");
  p.when = read_when(in);
  p.memory_gib = curve(in, "memory_gib").value_or(Curve::constant(0.5));
  p.utilization = curve(in, "utilization").value_or(Curve::constant(0));
  in.finish();
  return p;
}

GpuSpec read_gpu(Object& in, std::size_t index) {
  const std::string key = in.text("card", "");
  GpuSpec gpu = key.empty() ? GpuSpec{} : from_card(key, in.where("card"));
  read_overrides(in, gpu);
  if (gpu.name.empty() || gpu.memory_bytes == 0)
    complain(in.where(), "needs a 'card', or at least 'name' and 'memory_gib'");
  gpu.uuid = in.text("uuid", made_up_uuid(index));
  gpu.bus = in.text("bus", made_up_bus(index));
  gpu.load = read_load(in);
  for (Object& p : in.objects("processes")) gpu.processes.push_back(read_process(p));
  for (Object& e : in.objects("events")) gpu.events.push_back(read_event(e));
  return gpu;
}

void read_gpus(Object& in, Scenario& scenario) {
  for (Object& entry : in.objects("gpus")) {
    const auto copies = entry.integer("count", 1, 1, 64);
    if (copies > 1 && (entry.has("uuid") || entry.has("bus")))
      complain(entry.where(), "'count' with a fixed 'uuid' or 'bus' would give twins");
    for (std::int64_t i = 0; i < copies; ++i)
      scenario.gpus.push_back(read_gpu(entry, scenario.gpus.size()));
    entry.finish();
  }
  if (scenario.gpus.size() > 64) complain("gpus", "at most 64");
  for (std::size_t i = 0; i < scenario.gpus.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (scenario.gpus[i].uuid == scenario.gpus[j].uuid ||
          scenario.gpus[i].bus == scenario.gpus[j].bus)
        complain("gpus", "two GPUs have the same uuid or bus: " + scenario.gpus[i].uuid);
}

}  // namespace

bool When::is_active(double t_s) const {
  if (t_s < at_s) return false;
  if (repeat_every_s <= 0) return t_s < until_s;
  const double round = std::floor((t_s - at_s) / repeat_every_s);
  if (round >= static_cast<double>(times)) return false;
  return t_s - at_s - round * repeat_every_s < until_s - at_s;
}

std::int64_t When::occurrences(double t_s) const {
  if (t_s < at_s) return 0;
  if (repeat_every_s <= 0) return 1;
  const double rounds = 1 + std::floor((t_s - at_s) / repeat_every_s);
  return static_cast<std::int64_t>(std::min(rounds, static_cast<double>(times)));
}

Scenario parse_scenario(std::string_view json_text) {
  Json json;
  try {
    json = Json::parse(json_text);
  } catch (const Json::parse_error& e) {
    complain("scenario", e.what());
  }
  Object in(json, "scenario");
  Scenario scenario;
  scenario.about = in.text("about", "");
  scenario.driver = in.text("driver", scenario.driver);
  scenario.cuda = in.text("cuda", scenario.cuda);
  scenario.init = return_code(in.text("init", "SUCCESS"), in.where("init"));
  scenario.may_change = in.boolean("may_change", true);
  scenario.wide_process_entries = in.boolean("wide_process_entries", false);
  scenario.missing = in.texts("missing");
  read_gpus(in, scenario);
  for (Object& e : in.objects("events")) scenario.events.push_back(read_event(e));
  in.finish();
  if (scenario.init == nvml::Return::success && !in.has("gpus"))
    complain("scenario",
             "has no 'gpus'; name at least one, such as {\"gpus\": [{\"card\": \"h200\"}]}, or [] "
             "for a driver without a GPU");
  return scenario;
}

}  // namespace sluice::fake
