// How a session comes to graphs in f16 or bf16: what its model's nodes lose on sample inputs is
// measured when a graph is first made, never when a plan brings it, and a graph that loses more
// than is allowed is not used.
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
  DType to = DType::f32;  // f32: nothing is made narrow
  // Of the largest number of an output; infinite: nothing is measured. None: 0.01, and in bf16,
  // whose steps are eight times as wide, 0.08.
  std::optional<double> max_loss{};
  double sample_flops = 2e11;  // on the CPU; larger models are measured on the GPU, as a whole

  double allowed() const { return max_loss.value_or(to == DType::bf16 ? 0.08 : 0.01); }
};

// Thread-safe.
class Narrowing {
 public:
  // All of them outlive it.
  Narrowing(const Graph& model, Derived& derived, compute::Workers& workers,
            const NarrowingOptions& options);

  // What a program is to be made for.
  struct Wanted {
    const Graph& graph;  // in f32, optimized
    // Of its inputs: the model's, and more where padding is skipped.
    std::span<const TensorType> types;
    // Values of them to measure with; none, or nothing but the same number: random ones.
    std::vector<Tensor> sample;
  };
  struct Made {
    std::shared_ptr<const Program> program;
    PrecisionReport report;
  };
  // `compile` makes a program of a graph for the GPU. The narrow one is run once on the samples
  // and used if it loses no more than is allowed, otherwise the one in f32 is made and used; so is
  // it where what the narrow one loses cannot be measured. One at a time: others wait here, but
  // not for reports.
  using Compile = std::function<std::shared_ptr<const Program>(Graph)>;
  Made make(const Wanted& wanted, const Compile& compile);

  // Reports of graphs that are made or came with a plan; none for types that it has none for.
  std::vector<PrecisionReport> reports() const;
  void bring(std::vector<PrecisionReport> reports);
  std::optional<PrecisionReport> report(std::span<const TensorType> types) const;

 private:
  // What was measured with inputs of one type, rows left out.
  struct Evidence {
    std::vector<TensorType> types;
    std::vector<Tensor> sample, should_be;  // to compare a GPU's with, whatever its rows are
    std::set<std::string> wide;             // values
    PrecisionReport report;
    std::string why_not;     // measured
    bool too_large = false;  // for the CPU
    bool random = false;     // it makes random numbers
    bool of_steps = false;   // of small numbers
  };

  struct Found {
    Evidence& of;
    bool exact;  // for such inputs, not for others
  };

  std::span<const TensorType> own(const Wanted& wanted) const;
  Graph graph_for(std::span<const TensorType> types) const;
  std::string blamed(const Evidence& evidence) const;
  Found measured(const Wanted& wanted) REQUIRES(making_);
  void measure(const Wanted& wanted, Evidence& evidence);
  void take_sample(const Wanted& wanted, const Graph& graph, Evidence& evidence);
  void choose(const Graph& graph, double max_loss, Evidence& evidence);
  Made narrow_program(const Wanted& wanted, const Compile& compile, const Found& found)
      REQUIRES(making_);
  std::vector<std::vector<Tensor>> others(const Evidence& evidence) const;
  std::string measure_whole(const Wanted& wanted, const Compile& compile, Made& made) const;
  Made in_f32(const Wanted& wanted, const Compile& compile, PrecisionReport report);
  std::optional<double> loss_on_gpu(const Wanted& wanted, const Evidence& evidence,
                                    const Program& program) const;
  void keep(const PrecisionReport& report);

  const Graph& model_;
  Derived& derived_;
  compute::Workers& workers_;
  const NarrowingOptions options_;
  Mutex making_;  // held for seconds: programs are compiled, run and ended
  std::list<Evidence> evidence_ GUARDED_BY(making_);
  mutable Mutex mutex_;
  std::list<PrecisionReport> reports_ GUARDED_BY(mutex_);  // the last made first
};

}  // namespace sluice::engine
