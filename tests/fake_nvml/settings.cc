#include "settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "reader.h"

namespace sluice::fake {

namespace {

using Pair = std::optional<std::pair<unsigned, unsigned>>;

void put(Json& json, const char* key, const Pair& value) {
  if (value) json[key] = {value->first, value->second};
}

Pair pair_of(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return std::pair(json.at(key).at(0).get<unsigned>(), json.at(key).at(1).get<unsigned>());
}

Json to_json(const Settings& s) {
  Json json = Json::object();
  if (s.persistence) json["persistence"] = *s.persistence;
  if (s.power_limit_w) json["power_limit_w"] = *s.power_limit_w;
  put(json, "sm_lock", s.sm_lock);
  put(json, "memory_lock", s.memory_lock);
  put(json, "application_clocks", s.application_clocks);
  if (!s.memory_limits.empty()) json["memory_limits"] = s.memory_limits;
  return json;
}

Settings from_json(const Json& json) {
  Settings s;
  if (json.contains("persistence")) s.persistence = json.at("persistence").get<bool>();
  if (json.contains("power_limit_w")) s.power_limit_w = json.at("power_limit_w").get<double>();
  s.sm_lock = pair_of(json, "sm_lock");
  s.memory_lock = pair_of(json, "memory_lock");
  s.application_clocks = pair_of(json, "application_clocks");
  if (json.contains("memory_limits")) json.at("memory_limits").get_to(s.memory_limits);
  return s;
}

}  // namespace

Settings SettingsStore::of(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  reload();
  const auto found = by_uuid_.find(uuid);
  return found == by_uuid_.end() ? Settings{} : found->second;
}

bool SettingsStore::set(const std::string& uuid, const Settings& settings) {
  const std::lock_guard lock(mutex_);
  reload();
  by_uuid_[uuid] = settings;
  return save();
}

void SettingsStore::reload() {
  struct stat info {};
  if (file_.empty() || stat(file_.c_str(), &info) != 0) return;
  if (info.st_mtim.tv_sec == read_at_.tv_sec && info.st_mtim.tv_nsec == read_at_.tv_nsec) return;
  read_at_ = info.st_mtim;
  std::ifstream in(file_);
  const Json json = Json::parse(in, nullptr, false);
  if (!json.is_object()) return;
  try {
    std::map<std::string, Settings> fresh;
    for (const auto& item : json.items()) fresh[item.key()] = from_json(item.value());
    by_uuid_ = std::move(fresh);
  } catch (const Json::exception&) {
    // Not a file of ours: keep what we have.
  }
}

bool SettingsStore::save() const {
  if (file_.empty()) return true;
  Json json = Json::object();
  for (const auto& [uuid, settings] : by_uuid_) json[uuid] = to_json(settings);
  const std::string temporary = file_ + "." + std::to_string(getpid());
  std::ofstream out(temporary);
  out << json.dump(1) << '\n';
  out.close();
  return out.good() && std::rename(temporary.c_str(), file_.c_str()) == 0;
}

}  // namespace sluice::fake
