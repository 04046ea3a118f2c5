// Opens a model from disk, from a cached plan if a matching one exists.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/plan/plan.h"
#include "engine/plan/plan_cache.h"
#include "engine/session/session.h"

namespace sluice::engine {

struct OpenOptions {
  SessionOptions session{};
  PlanCache plans{};      // the plan cache to search
  std::string version{};  // of Sluice; plans of other versions are not used
};

struct OpenModel {
  std::unique_ptr<Session> session;
  PlanKey key{};                 // the key of a plan for this model and machine
  std::filesystem::path from{};  // the plan it was loaded from; empty: the model itself
  std::size_t shapes = 0;        // compiled shapes in the plan
  std::string refused{};         // why an existing plan was not used
  bool is_named_plan = false;    // `path` was a plan, which identifies its model itself
};

// The key of a plan for a model with this stamp on this machine.
PlanKey plan_key(std::string model, const OpenOptions& options);

// `path`: a plan, an .onnx file, or a folder for import_model. A plan for another version, device
// or driver is not used: `refused` gives the reason, and the model is compiled again, from the copy
// in the plan if `path` was a plan.
OpenModel open_model(const std::filesystem::path& path, compute::Workers& workers,
                     const OpenOptions& options);

// Stores the compiled programs in `plans` for the next open_model(). False if plans are not kept,
// the loaded plan already has all of them, or `path` was a plan.
bool keep_plan(const OpenModel& model, const PlanCache& plans);

}  // namespace sluice::engine
