// Mixed precision: chooses which nodes of a session's graphs compute in f16 or bf16. The loss on
// sample inputs is measured when a graph is first compiled, never when it comes from a plan; a
// graph that loses more than is allowed is not used.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/exec/program.h"
#include "engine/graph/graph_editor.h"
#include "engine/precision/precision_choice.h"

namespace sluice::engine {

std::string precision_name(DType type);  // "fp16"

struct NarrowingOptions {
  DType to = DType::f32;  // f32: nothing is narrowed
  // Relative to the largest value of an output; infinite: nothing is measured. Default: 0.01, and
  // 0.08 for bf16, whose epsilon is eight times as large.
  std::optional<double> max_loss{};
  double sample_flops = 2e11;  // limit on the CPU; larger models are measured as a whole on the GPU

  double allowed() const { return max_loss.value_or(to == DType::bf16 ? 0.08 : 0.01); }
};

// Thread-safe.
class Narrowing {
 public:
  // All of them outlive it.
  Narrowing(const Graph& model, DerivedConstants& derived, compute::Workers& workers,
            const NarrowingOptions& options);

  // The program to make.
  struct Request {
    const Graph& graph;  // in f32, optimized
    // The types of its inputs: the model's, and more if padding is skipped.
    std::span<const TensorType> types;
    // Inputs to measure with; random ones are used if it is empty or constant.
    std::vector<Tensor> sample;
  };
  struct Made {
    std::shared_ptr<const Program> program;
    PrecisionReport report;
  };
  // `compile` compiles a graph for the GPU. The narrow program is run once on the samples and used
  // if it loses no more than is allowed; otherwise, or if its loss cannot be measured, the f32
  // program is compiled and used. Calls are serialized; reports() does not wait for them.
  using Compile = std::function<std::shared_ptr<const Program>(Graph)>;
  Made make(const Request& request, const Compile& compile);

  // Reports of graphs that were compiled or came from a plan.
  std::vector<PrecisionReport> reports() const;
  void restore(std::vector<PrecisionReport> reports);
  std::optional<PrecisionReport> report(std::span<const TensorType> types) const;

 private:
  // The measurement with inputs of some types, for a batch of one.
  struct Evidence {
    std::vector<TensorType> types;
    std::vector<Tensor> sample, expected_outputs;  // to compare a GPU's with, whatever its rows are
    std::set<std::string> wide;                    // values
    PrecisionReport report;
    std::string why_not;        // why it was not measured
    bool too_large = false;     // for the CPU
    bool random = false;        // the graph generates random numbers
    bool is_quantized = false;  // the graph has quantized nodes
  };

  struct Found {
    Evidence& of;
    bool exact;  // measured with inputs of these types
  };

  std::span<const TensorType> own(const Request& request) const;
  Graph graph_for(std::span<const TensorType> types) const;
  std::string blamed_nodes(const Evidence& evidence) const;
  Found measured(const Request& request) REQUIRES(making_);
  void measure(const Request& request, Evidence& evidence);
  void take_sample(const Request& request, const Graph& graph, Evidence& evidence);
  void choose(const Graph& graph, double max_loss, Evidence& evidence);
  Made narrow_program(const Request& request, const Compile& compile, const Found& found)
      REQUIRES(making_);
  std::vector<std::vector<Tensor>> others(const Evidence& evidence) const;
  std::string measure_whole(const Request& request, const Compile& compile, Made& made) const;
  Made in_f32(const Request& request, const Compile& compile, PrecisionReport report);
  std::optional<double> loss_on_gpu(const Request& request, const Evidence& evidence,
                                    const Program& program) const;
  void keep(const PrecisionReport& report);

  const Graph& model_;
  DerivedConstants& derived_;
  compute::Workers& workers_;
  const NarrowingOptions options_;
  Mutex making_;  // held for seconds, while programs are compiled and run
  std::list<Evidence> evidence_ GUARDED_BY(making_);
  mutable Mutex mutex_;
  std::list<PrecisionReport> reports_ GUARDED_BY(mutex_);  // newest first
};

}  // namespace sluice::engine
