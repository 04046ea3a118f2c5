#include "cli/model/plan_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/bytes.h"
#include "cli/common/checks.h"
#include "cli/common/program_settings.h"

namespace sluice::cli {

PlanFlags::PlanFlags() : settings(std::make_shared<SettingsOptions>()) {}

void add_options(CLI::App& app, PlanFlags& flags) {
  auto* const folder =
      app.add_option("--plans", flags.folder, "keep plans here; otherwise in the cache folder")
          ->type_name("DIR")
          ->check(not_empty("a folder"));
  app.add_flag("--no-plans", flags.off, "compile anew, and keep nothing of it")->excludes(folder);
  add_options(app, *flags.settings);
}

engine::PlanCache plan_cache(const PlanFlags& flags, const Io& io) {
  if (flags.off) return {};
  const ProgramSettings settings = load_settings(*flags.settings, io.environment);
  engine::PlanCache cache{flags.folder,
                          static_cast<std::uint64_t>(settings.engine.plans_gb * kGiB)};
  if (cache.folder.empty() && settings.engine.plans)
    cache.folder = std::filesystem::path(settings.cache_dir) / "plans";
  return cache;
}

}  // namespace sluice::cli
