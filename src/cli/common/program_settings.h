// The complete configuration of the program, from file, environment and command line, as one value
// that commands read.
//
//   SettingsOptions options;
//   add_options(app, options);                       // --config, --set
//   app.add_option("--port", ...)                    // a command's own flags:
//   options.flag("--port", "serve.port", text);
//   const ProgramSettings settings = load_settings(options, io.environment);
//
// SIGHUP: load again with the same options and environment, then apply_live().
//
//   auto loaded = load_settings(options, environment);    // throws: keep the running ones
//   const Reload reload = apply_live(running, loaded);    // running now has the live changes
//   for (const auto& c : reload.now) log::info("reloaded {}", to_string(c));
//   for (const auto& c : reload.restart) log::warn("{} needs a restart", to_string(c));
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "broker/lease/config.h"
#include "device/config.h"
#include "engine/plan/config.h"
#include "memory/pool/config.h"
#include "serve/config.h"
#include "watch/config.h"

namespace CLI {
class App;
}

namespace sluice::cli {

struct ProgramSettings {
  std::string log_level = "info";
  std::string state_dir;  // what must survive; never empty once loaded
  std::string cache_dir;  // what can be made again; never empty once loaded
  device::GpuConfig gpu;
  watch::WatchConfig watch;  // its rules: the defaults as changed by [[alerts]]
  broker::BrokerConfig broker;
  memory::MemoryConfig memory;
  engine::EngineConfig engine;
  serve::ServeConfig serve;
  std::vector<device::AutoscalingConfig> autoscaling;

  std::string config_file;            // empty when there is none
  Origins origins;                    // of every value that is not a default
  std::vector<std::string> warnings;  // what loaded but deserves a look; for the log

  static constexpr auto fields() {
    using C = ProgramSettings;
    return std::tuple{
        Field{"log_level", &C::log_level, "minimum severity of the lines that are logged"}
            .one_of("debug|info|warn|error")
            .live(),
        Field{"state_dir", &C::state_dir,
              "folder of what must survive: history, jobs, models; empty means by XDG"},
        Field{"cache_dir", &C::cache_dir,
              "folder of what can be made again: compiled plans; empty means by XDG"},
    };
  }
};

log::Level log_level(const ProgramSettings& settings);

// The settings given on the command line.
struct SettingsOptions {
  std::string config_file;               // --config
  std::vector<std::string> assignments;  // --set section.name=value
  std::vector<Flag> flags;               // a command's own

  // The setting `key` as the command's own flag `name` gave it.
  void flag(std::string name, std::string key, std::string value) {
    flags.push_back({std::move(name), std::move(key), std::move(value)});
  }
};

// --config FILE and --set KEY=VALUE.
void add_options(CLI::App& app, SettingsOptions& options);

// Defaults, gpu_type's profile, file (--config, else SLUICE_CONFIG, else none),
// environment, flags. Throws one invalid_argument that lists every problem.
ProgramSettings load_settings(const SettingsOptions& options, const Environment& environment);

// The environment of this process.
Environment process_environment();

// Without what a lease exports to its holder; load_settings() reads so where SLUICE_LEASE_ID
// is set.
Environment without_lease(Environment environment);

// Every setting of `settings`, bound to it: for showing. `settings` must outlive it.
Settings bind(ProgramSettings& settings);

struct Change {
  std::string key, from, to;  // secrets masked
};
std::string to_string(const Change& change);  // "watch.interval_s: 1 -> 0.5"

struct Reload {
  std::vector<Change> now;      // took effect
  std::vector<Change> restart;  // will at the next start
};

// Returns the differences; changes neither.
Reload diff(const ProgramSettings& running, const ProgramSettings& loaded);

// Copies into `running` what may change at run time, with its origins.
Reload apply_live(ProgramSettings& running, const ProgramSettings& loaded);

}  // namespace sluice::cli
