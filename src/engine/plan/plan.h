// A compiled model as a file: the model, its optimized graphs for some input shapes, and what its
// kernels need: packed weights on the CPU; chosen algorithms and compiled code on a GPU. The file
// is mapped, so that a start takes milliseconds.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/exec/packed_constant.h"
#include "engine/graph/graph.h"
#include "engine/io/plan_magic.h"
#include "engine/plan/plan_key.h"
#include "engine/precision/precision_report.h"

namespace sluice::engine {

struct Plan {
  PlanKey key;
  Graph graph;                                   // for shapes that were not planned
  std::vector<Graph> shapes;                     // specialized and optimized
  std::vector<PackedConstant> packed;            // constants of `shapes`
  std::map<std::string, std::string> choices{};  // see cuda::Context
  std::vector<PrecisionReport> precision{};      // of `shapes`, by the types of their inputs
};

// Atomic: the file is complete or does not exist.
void write_plan(const std::filesystem::path& file, const Plan& plan);

// Throws not_found, or invalid_argument if the file is not a plan, has another version or is
// damaged: every byte is hashed. Graphs are validated like a model's; the kernel that reads packed
// weights checks their type and size (cpu::Context::packed), not their values.
Plan read_plan(const std::filesystem::path& file, compute::Workers& workers);
Graph read_plan_model(const std::filesystem::path& file, compute::Workers& workers);

// Reads the key only, from the head.
PlanKey read_plan_key(const std::filesystem::path& file);

// The processor and the instruction set that kernels were chosen for.
std::string device_stamp();

}  // namespace sluice::engine
