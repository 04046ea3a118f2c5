// A model from disk, ready to run: from a plan where there is one that fits.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/session.h"

namespace sluice::engine {

struct OpenOptions {
  SessionOptions session{};
  std::filesystem::path plans{};  // folder where plans are kept by themselves; empty: nowhere
  std::string version{};          // of Sluice; plans of others are not used
};

struct OpenModel {
  std::unique_ptr<Session> session;
  PlanKey key;                   // what a plan of it is good for, here
  std::filesystem::path from{};  // the plan it came from; empty: the model itself
  std::string refused{};         // why a plan that is there was not used
};

// `path`: a plan, an .onnx file, or a folder that import_model takes. A plan that was made for
// another version or device is refused with the reason (unavailable) when it is named here, and
// left aside when it was found in `plans`.
OpenModel open_model(const std::filesystem::path& path, compute::Workers& workers,
                     const OpenOptions& options);

// Writes what is compiled into `plans`, so that the next open_model() finds it. False where
// there is no such folder, or nothing is compiled.
bool keep_plan(const OpenModel& model, const std::filesystem::path& plans);

}  // namespace sluice::engine
