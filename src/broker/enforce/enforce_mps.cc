#include "broker/enforce/enforce_mps.h"

#include <sys/stat.h>
#include <unistd.h>

#include "device/sysfs.h"

namespace sluice::broker {

namespace {

// Where no daemon runs, anybody may make the default folder, which is in /tmp.
bool is_trusted_folder(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         (facts.st_uid == 0 || facts.st_uid == ::geteuid());
}

}  // namespace

bool mps_daemon_runs(const std::string& pipe_dir, const std::string& proc) {
  if (!is_trusted_folder(pipe_dir)) return false;
  const auto pid = device::read_int(pipe_dir + "/nvidia-cuda-mps-control.pid");
  if (!pid || *pid <= 0) return false;
  const auto name = device::read_line(proc + "/" + std::to_string(*pid) + "/comm");
  return name && name->starts_with("nvidia-cuda-mps");  // the kernel keeps 15 characters
}

std::string started_with(std::int64_t pid, const std::string& variable, const std::string& proc) {
  const auto all = device::read_text(proc + "/" + std::to_string(pid) + "/environ").value_or("");
  for (const auto one : device::split(all, '\0'))
    if (one.size() > variable.size() && one[variable.size()] == '=' && one.starts_with(variable))
      return std::string(one.substr(variable.size() + 1));
  return "";
}

}  // namespace sluice::broker
