// Hardware as JSON. A fact that is not known is left out. Keys are part of the
// program's interface: docs/schemas has them, and `sluice detect --json`, the HTTP
// routes and the sampler's pipe all use them.
#include "device/gpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice::device {

namespace {

constexpr const char* kVendors[] = {"nvidia", "amd", "intel", "apple"};

template <class T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

void put(Json& json, const char* key, const std::string& value) {
  if (!value.empty()) json[key] = value;
}

void put(Json& json, const char* key, std::optional<int> major, std::optional<int> minor) {
  if (major && minor) json[key] = fmt::format("{}.{}", *major, *minor);
}

void put_group(Json& json, const char* key, Json group) {
  if (!group.empty()) json[key] = std::move(group);
}

template <class T>
void get(const Json& json, const char* key, std::optional<T>& value) {
  if (json.contains(key)) value = json.at(key).get<T>();
}

void get(const Json& json, const char* key, std::string& value) {
  if (json.contains(key)) value = json.at(key).get<std::string>();
}

void get(const Json& json, const char* key, std::optional<int>& major, std::optional<int>& minor) {
  if (!json.contains(key)) return;
  int a = 0, b = 0;
  const auto text = json.at(key).get<std::string>();
  require(std::sscanf(text.c_str(), "%d.%d", &a, &b) == 2,
          fmt::format("{} must look like \"9.0\", not \"{}\"", key, text));
  major = a, minor = b;
}

Json clocks_json(const Clocks& clocks) {
  Json j = Json::object();
  put(j, "sm_mhz", clocks.sm_mhz);
  put(j, "memory_mhz", clocks.memory_mhz);
  put(j, "sm_max_mhz", clocks.sm_max_mhz);
  put(j, "memory_max_mhz", clocks.memory_max_mhz);
  return j;
}

Json power_json(const PowerLimits& power) {
  Json j = Json::object();
  put(j, "limit_w", power.current_w);
  put(j, "enforced_w", power.enforced_w);
  put(j, "default_w", power.default_w);
  put(j, "min_w", power.min_w);
  put(j, "max_w", power.max_w);
  return j;
}

Json ecc_json(const Ecc& ecc) {
  Json j = Json::object();
  put(j, "enabled", ecc.enabled);
  put(j, "pending", ecc.pending);
  return j;
}

Json links_json(const std::vector<NvLink>& links) {
  Json all = Json::array();
  for (const NvLink& link : links) {
    Json j = {{"link", link.link}, {"active", link.active}};
    put(j, "version", link.version);
    put(j, "peer_bus", link.peer_bus);
    all.push_back(std::move(j));
  }
  return all;
}

void read_groups(const Json& json, Gpu& gpu) {
  const Json none = Json::object();
  const auto group = [&](const char* key) { return json.contains(key) ? json.at(key) : none; };
  const Json clocks = group("clocks"), power = group("power"), ecc = group("ecc");
  get(clocks, "sm_mhz", gpu.clocks.sm_mhz);
  get(clocks, "memory_mhz", gpu.clocks.memory_mhz);
  get(clocks, "sm_max_mhz", gpu.clocks.sm_max_mhz);
  get(clocks, "memory_max_mhz", gpu.clocks.memory_max_mhz);
  get(power, "limit_w", gpu.power.current_w);
  get(power, "enforced_w", gpu.power.enforced_w);
  get(power, "default_w", gpu.power.default_w);
  get(power, "min_w", gpu.power.min_w);
  get(power, "max_w", gpu.power.max_w);
  get(ecc, "enabled", gpu.ecc.enabled);
  get(ecc, "pending", gpu.ecc.pending);
  if (json.contains("mig"))
    gpu.mig = Mig{json.at("mig").at("enabled").get<bool>(),
                  json.at("mig").at("instances").get<unsigned>()};
  for (const Json& j : json.value("nvlinks", Json::array())) {
    NvLink link{j.at("link").get<unsigned>(), j.at("active").get<bool>(), {}, {}};
    get(j, "version", link.version);
    get(j, "peer_bus", link.peer_bus);
    gpu.nvlinks.push_back(std::move(link));
  }
}

Precision precision_from(const std::string& name) {
  for (const auto p : {Precision::fp64, Precision::fp32, Precision::tf32, Precision::bf16,
                       Precision::fp16, Precision::fp8, Precision::int8})
    if (to_string(p) == name) return p;
  throw Error(Code::invalid_argument, "unknown precision \"" + name + "\"");
}

Gpu read_gpu(const Json& json) {
  Gpu gpu{};
  const auto vendor = json.at("vendor").get<std::string>();
  const auto* found = std::find(std::begin(kVendors), std::end(kVendors), vendor);
  require(found != std::end(kVendors), "unknown vendor \"" + vendor + "\"");
  gpu.vendor = static_cast<Vendor>(found - std::begin(kVendors));
  gpu.uuid = json.at("uuid").get<std::string>();
  get(json, "bus", gpu.bus);
  get(json, "name", gpu.name);
  get(json, "memory_total_bytes", gpu.memory_total);
  get(json, "memory_free_bytes", gpu.memory_free);
  get(json, "memory_used_bytes", gpu.memory_used);
  get(json, "memory_reserved_bytes", gpu.memory_reserved);
  get(json, "compute_capability", gpu.compute_major, gpu.compute_minor);
  get(json, "driver_version", gpu.driver_version);
  get(json, "cuda_version", gpu.cuda_major, gpu.cuda_minor);
  get(json, "sm_count", gpu.sm_count);
  get(json, "numa_node", gpu.numa_node);
  get(json, "persistence_mode", gpu.persistence);
  read_groups(json, gpu);
  if (json.contains("catalogue")) {
    const auto key = json.at("catalogue").at("key").get<std::string>();
    for (const Card& card : catalogue())
      if (card.key == key) gpu.card = card;
  }
  gpu.recommended_precision = precision_from(json.value("recommended_precision", "fp32"));
  get(json, "recommended_because", gpu.recommended_because);
  return gpu;
}

}  // namespace

const char* to_string(Vendor vendor) noexcept { return kVendors[static_cast<int>(vendor)]; }

Json to_json(const Gpu& gpu) {
  Json j = {{"vendor", to_string(gpu.vendor)}, {"uuid", gpu.uuid}};
  put(j, "bus", gpu.bus);
  put(j, "name", gpu.name);
  put(j, "memory_total_bytes", gpu.memory_total);
  put(j, "memory_free_bytes", gpu.memory_free);
  put(j, "memory_used_bytes", gpu.memory_used);
  put(j, "memory_reserved_bytes", gpu.memory_reserved);
  put(j, "compute_capability", gpu.compute_major, gpu.compute_minor);
  put(j, "driver_version", gpu.driver_version);
  put(j, "cuda_version", gpu.cuda_major, gpu.cuda_minor);
  put(j, "sm_count", gpu.sm_count);
  put(j, "numa_node", gpu.numa_node);
  put(j, "persistence_mode", gpu.persistence);
  put_group(j, "clocks", clocks_json(gpu.clocks));
  put_group(j, "power", power_json(gpu.power));
  put_group(j, "ecc", ecc_json(gpu.ecc));
  if (gpu.mig) j["mig"] = {{"enabled", gpu.mig->enabled}, {"instances", gpu.mig->instances}};
  put_group(j, "nvlinks", links_json(gpu.nvlinks));
  if (gpu.card) j["catalogue"] = to_json(*gpu.card);
  j["recommended_precision"] = to_string(gpu.recommended_precision);
  put(j, "recommended_because", gpu.recommended_because);
  return j;
}

Json to_json(const Cpu& cpu) {
  Json j = Json::object();
  put(j, "model", cpu.model);
  put(j, "architecture", cpu.architecture);
  j["sockets"] = cpu.sockets;
  j["physical_cores"] = cpu.physical_cores;
  j["logical_cores"] = cpu.logical_cores;
  j["usable_cores"] = cpu.usable_cores;
  put(j, "limited_by", cpu.limited_by);
  j["isa"] = cpu.isa;
  j["caches"] = Json::array();
  for (const Cache& c : cpu.caches)
    j["caches"].push_back({{"level", c.level}, {"type", c.type}, {"bytes", c.bytes}});
  j["numa"] = Json::array();
  for (const NumaNode& n : cpu.numa) {
    Json node = {{"node", n.node}, {"cpus", n.cpus}};
    put(node, "memory_total_bytes", n.memory_total);
    j["numa"].push_back(std::move(node));
  }
  j["memory_total_bytes"] = cpu.memory_total;
  j["memory_available_bytes"] = cpu.memory_available;
  put(j, "memory_limit_bytes", cpu.memory_limit);
  return j;
}

Json to_json(const Inventory& inventory) {
  Json gpus = Json::array();
  for (const Gpu& gpu : inventory.gpus) gpus.push_back(to_json(gpu));
  Json json{{"gpus", std::move(gpus)}, {"cpu", to_json(inventory.cpu)}, {"notes", inventory.notes}};
  if (!inventory.driver_trouble.empty()) json["driver_trouble"] = inventory.driver_trouble;
  return json;
}

Gpu gpu_from_json(const Json& json) {
  try {
    return read_gpu(json);
  } catch (const nlohmann::json::exception& e) {
    throw Error(Code::invalid_argument, std::string("not a GPU description: ") + e.what());
  }
}

}  // namespace sluice::device
