// Runs test cases in the layout of ONNX's own: a folder with model.onnx and
// test_data_set_<k>/{input_<i>,output_<i>}.pb, or <name>.onnx beside <name>_output_0.pb.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compute/workers.h"

namespace sluice::engine {

namespace cuda {
class Context;
}

enum class CaseStatus { passed, failed, unsupported };
std::string_view to_string(CaseStatus status) noexcept;

// What nodes of a case ran on, with a GPU at hand.
enum class RanOn { cpu, both, gpu };
std::string_view to_string(RanOn where) noexcept;

struct CaseResult {
  std::string name;
  CaseStatus status = CaseStatus::passed;
  std::string reason{};  // why not passed
  RanOn ran_on = RanOn::cpu;
};

// The models below `folder`, in order of their names.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& folder);

// Never throws: what goes wrong is the result. Outputs must agree with the expected ones
// in type and shape, and within |a - b| <= 1e-7 + 1e-3 |b|. On the CPU both ways are tried,
// node by node and compiled; with `gpu` it is compiled for that.
CaseResult run_case(const std::filesystem::path& model, compute::Workers& workers,
                    const std::shared_ptr<cuda::Context>& gpu = nullptr);

}  // namespace sluice::engine
