#include "device/tune/tune_record.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/new_file.h"

namespace sluice::device {

namespace {

constexpr int kFormat = 1;
constexpr std::size_t kMaxBytes = 4 << 20;

[[noreturn]] void fail(const char* what, const Path& file) {
  throw Error(Code::internal, fmt::format("{} {}: {}", what, file.string(), std::strerror(errno)));
}

}  // namespace

TuneRecord::TuneRecord(Path folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)) {
  load();
}

void TuneRecord::load() {
  originals_.clear();
  const auto text = read_state_file(file().string(), kMaxBytes);
  if (!text) return;
  try {
    const auto json = Json::parse(*text);
    require(json.at("format").get<int>() == kFormat, "written by a newer Sluice");
    for (const auto& [uuid, before] : json.at("gpus").items())
      originals_[uuid] = tuning_from_json(before.at("before"));
  } catch (const nlohmann::json::exception& e) {
    throw Error(Code::invalid_argument, file().string() + " is not a tuning record: " + e.what() +
                                            "; move it away to start a new one");
  } catch (const Error& e) {
    throw Error(Code::invalid_argument, file().string() + ": " + std::string(e.reason()));
  }
}

void TuneRecord::lock() {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed)
    throw Error(Code::internal, "cannot make " + folder_.string() + ": " + failed.message());
  const auto path = folder_ / (name_ + ".lock");
  lock_.emplace(path.string(), O_RDWR | O_CREAT);
  while (flock(lock_->fd(), LOCK_EX) != 0)
    if (errno != EINTR) fail("cannot lock", path);
  load();
}

const Tuning* TuneRecord::of(const std::string& uuid) const {
  const auto found = originals_.find(uuid);
  return found == originals_.end() ? nullptr : &found->second;
}

void TuneRecord::remember(const std::string& uuid, const Tuning& before) {
  auto& original = originals_[uuid];
  if (!original.persistence) original.persistence = before.persistence;
  if (!original.power_limit_w) original.power_limit_w = before.power_limit_w;
  if (!original.clocks) original.clocks = before.clocks;
}

void TuneRecord::replace(const std::string& uuid, const Tuning* original) {
  if (original == nullptr)
    originals_.erase(uuid);
  else
    originals_[uuid] = *original;
}

void TuneRecord::save() const {
  Json gpus = Json::object();
  for (const auto& [uuid, before] : originals_) gpus[uuid] = {{"before", to_json(before)}};
  const Json json = {{"format", kFormat}, {"gpus", std::move(gpus)}};
  NewFile out(file());
  out.write(json.dump(2) + "\n");
  out.keep();
}

}  // namespace sluice::device
