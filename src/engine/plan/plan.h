// A compiled model as a file: the model, its graphs for some input shapes as the passes left
// them, and what kernels were made with: on the CPU weights in the order they read, on a GPU what
// measuring found and code that was compiled. Mapped when read, so that a start costs
// milliseconds.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/io/plan_magic.h"
#include "engine/precision/precision_choice.h"

namespace sluice::engine {

// What a plan is good for.
struct PlanKey {
  std::string model;      // what it was made of: model_stamp(), or model_content()
  std::string device;     // as device_stamp() says, or cuda_stamp()
  std::string software;   // driver and libraries of a GPU; empty for the CPU
  std::string precision;  // "fp32"
  std::string version;    // of Sluice

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

// "x.plan was made for ..., this is ...: compile the model again"; empty where it fits.
std::string why_stale(const PlanKey& made, const PlanKey& here);

struct Plan {
  PlanKey key;
  Graph graph;                                   // for shapes that were not planned
  std::vector<Graph> shapes;                     // specialized and optimized
  std::vector<cpu::Context::Packed> packed;      // of constants in `shapes`
  std::map<std::string, std::string> choices{};  // see cuda::Context
  std::vector<PrecisionReport> precision{};      // what `shapes` lose, by the types of their inputs
};

// Appears whole or not at all.
void write_plan(const std::filesystem::path& file, const Plan& plan);

// Throws not_found, or invalid_argument where it is no plan, one of another version, or a damaged
// one: every byte is hashed. Every graph is checked as if it came from a model; of packed weights
// type and size are, by the kernel that is to read them (cpu::Context::packed), not the numbers.
Plan read_plan(const std::filesystem::path& file, compute::Workers& workers);
Graph read_plan_model(const std::filesystem::path& file, compute::Workers& workers);

// The key alone, for which no more than the head is looked at.
PlanKey read_plan_key(const std::filesystem::path& file);

// The processor and the instructions that kernels were chosen for.
std::string device_stamp();

// Where plans are kept by themselves: the file in `folder` for this model, device and precision.
// One of another version, or for other software, has the same name: it is replaced.
std::filesystem::path plan_file(const std::filesystem::path& folder, const PlanKey& key);

}  // namespace sluice::engine
