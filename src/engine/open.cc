#include "engine/open.h"

#include "base/error.h"
#include "base/state_file.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/io/hf_import.h"
#include "engine/io/model_stamp.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

std::string precision_name(const SessionOptions& options) {
  if (!options.gpu) return "fp32";
  if (options.precision == DType::f16) return "fp16";
  if (options.precision == DType::bf16) return "bf16";
  return options.gpu->options.tf32 ? "tf32" : "fp32";
}

// False if the plan does not match this machine; `opened.refused` gives the reason.
bool from_plan(const fs::path& file, compute::Workers& workers, const OpenOptions& options,
               OpenModel& opened) {
  opened.refused = why_stale(read_plan_key(file), opened.key);
  if (!opened.refused.empty()) {
    opened.refused = file.string() + ": " + opened.refused;
    return false;
  }
  Plan plan = read_plan(file, workers);
  opened.shapes = plan.shapes.size();
  opened.session = std::make_unique<Session>(std::move(plan), workers, options.session);
  opened.from = file;
  return true;
}

// False if there is no plan in the cache, or none for this machine. A damaged one is ignored.
bool from_cache(compute::Workers& workers, const OpenOptions& options, OpenModel& opened) {
  const std::optional<fs::path> file = options.plans.find(opened.key);
  if (!file) return false;
  try {
    check_state_file(file->string());
    if (!from_plan(*file, workers, options, opened)) return false;
    PlanCache::touch(*file);
    return true;
  } catch (const Error& error) {
    opened.refused = std::string(error.reason());
    return false;
  }
}

}  // namespace

PlanKey plan_key(std::string model, const OpenOptions& options) {
  PlanKey key{std::move(model), "", "", precision_name(options.session), options.version};
  if (!options.session.gpu) {
    key.device = device_stamp();
    return key;
  }
  CudaStamp stamp = cuda_stamp(*options.session.gpu);
  key.device = std::move(stamp.device);
  key.software = std::move(stamp.software);
  return key;
}

OpenModel open_model(const fs::path& path, compute::Workers& workers, const OpenOptions& options) {
  OpenModel opened;
  const bool plan = path.extension() == ".plan" || is_plan(path);
  const bool looks = !options.plans.folder.empty() && options.session.compile;
  if (plan || looks)
    opened.key = plan_key(plan ? read_plan_key(path).model : model_stamp(path), options);
  opened.is_named_plan = plan;
  if (plan && from_plan(path, workers, options, opened)) return opened;
  const std::string refused = opened.refused;
  if (looks && !plan && from_cache(workers, options, opened)) {
    opened.refused = refused;  // for the plan given as `path`
    return opened;
  }
  if (!refused.empty()) opened.refused = refused;
  opened.session = std::make_unique<Session>(
      plan ? read_plan_model(path, workers) : import_model(path), workers, options.session);
  return opened;
}

bool keep_plan(const OpenModel& model, const PlanCache& plans) {
  // A plan given as `path` may claim any model, so it is not added to the cache.
  if (plans.folder.empty() || model.is_named_plan) return false;
  const Plan plan = model.session->plan(model.key);
  return plan.shapes.size() > model.shapes && plans.put(plan);
}

}  // namespace sluice::engine
