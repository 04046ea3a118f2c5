#include "engine/open.h"

#include "base/error.h"
#include "engine/import_hf.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

OpenModel from_plan(const fs::path& file, const PlanKey& here, compute::Workers& workers,
                    const OpenOptions& options) {
  Plan plan = read_plan(file, workers);
  if (std::string why = why_stale(plan.key, here); !why.empty())
    throw Error(Code::unavailable, file.string() + ": " + why);
  return {std::make_unique<Session>(std::move(plan), workers, options.session), here, file};
}

}  // namespace

OpenModel open_model(const fs::path& path, compute::Workers& workers, const OpenOptions& options) {
  PlanKey here{"", device_stamp(), "fp32", options.version};
  if (path.extension() == ".plan") {
    here.model = read_plan_key(path).model;  // it stands for the model itself
    return from_plan(path, here, workers, options);
  }
  OpenModel opened;
  if (!options.plans.empty() && options.session.compile) {
    here.model = model_stamp(path);
    const fs::path kept = plan_file(options.plans, here);
    std::error_code ignored;
    try {
      if (fs::exists(kept, ignored)) return from_plan(kept, here, workers, options);
    } catch (const Error& error) {
      opened.refused = std::string(error.reason());
    }
  }
  opened.session = std::make_unique<Session>(import_model(path), workers, options.session);
  opened.key = std::move(here);
  return opened;
}

bool keep_plan(const OpenModel& model, const fs::path& plans) {
  if (plans.empty()) return false;
  const Plan plan = model.session->plan(model.key);
  if (plan.shapes.empty()) return false;
  write_plan(plan_file(plans, model.key), plan);
  return true;
}

}  // namespace sluice::engine
