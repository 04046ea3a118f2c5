// Flags for the plan cache, shared by several commands.
#pragma once

#include <memory>
#include <string>

#include "cli/common/command.h"
#include "engine/plan/config.h"

namespace sluice::cli {

struct SettingsOptions;  // names in program_settings.h and in the engine exclude each other

struct PlanFlags {
  PlanFlags();

  std::string folder;
  bool off = false;
  std::shared_ptr<SettingsOptions> settings;
};
void add_options(CLI::App& app, PlanFlags& flags);  // --plans, --no-plans, --config, --set

// The cache that the flags name, or else the one of the settings, in the cache folder.
engine::PlanCache plan_cache(const PlanFlags& flags, const Io& io);

}  // namespace sluice::cli
