// A model from disk, ready to run: from a plan where there is one that fits.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/plan/plan_cache.h"
#include "engine/session/session.h"

namespace sluice::engine {

struct OpenOptions {
  SessionOptions session{};
  PlanCache plans{};      // where plans are looked for
  std::string version{};  // of Sluice; plans of others are not used
};

struct OpenModel {
  std::unique_ptr<Session> session;
  PlanKey key{};                 // what a plan of it is good for, here
  std::filesystem::path from{};  // the plan it came from; empty: the model itself
  std::size_t shapes = 0;        // that it brought
  std::string refused{};         // why a plan that is there was not used
  bool is_named_plan = false;    // `path` was a plan: whose model it is, it says itself
};

// What a plan of a model with this stamp is good for here.
PlanKey plan_key(std::string model, const OpenOptions& options);

// `path`: a plan, an .onnx file, or a folder that import_model takes. A plan for another version,
// device or driver is not used: it says so in `refused`, and the model is compiled again, from
// the plan's own copy of it where the plan was named here.
OpenModel open_model(const std::filesystem::path& path, compute::Workers& workers,
                     const OpenOptions& options);

// Puts what is compiled into `plans`, so that the next open_model() finds it. False where plans
// are not kept, the one that it came from has it all, or `path` was a plan.
bool keep_plan(const OpenModel& model, const PlanCache& plans);

}  // namespace sluice::engine
