// The CPU: the sequences are cut into chunks, for each of which a program is made of the graph.
#include <algorithm>
#include <iterator>
#include <list>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/mutex.h"
#include "engine/encoder/encoder_runner.h"
#include "engine/encoder/plan_chunks.h"
#include "engine/exec/cpu/cpu_program.h"

namespace sluice::engine {
namespace {

using Sizes = PackedGraph::Sizes;

// The programs of the sizes that were used last. Making one takes 0.05 ms.
class ProgramCache {
 public:
  using Made = std::shared_ptr<const Program>;

  Made find(const Sizes& sizes) {
    const Lock lock(mutex_);
    const auto found = std::ranges::find(entries_, sizes, &Entry::first);
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    return found->second;
  }
  void add(const Sizes& sizes, Made made) {
    const Lock lock(mutex_);
    entries_.emplace_front(sizes, std::move(made));
    if (entries_.size() > kMax) entries_.pop_back();
  }

 private:
  using Entry = std::pair<Sizes, Made>;
  static constexpr std::size_t kMax = 32;

  Mutex mutex_;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // most recently used first
};

// ---- inputs ---------------------------------------------------------------------------------

Tensor cu_seqlens_of(const PackedTokens& tokens, const Chunk& chunk) {
  Tensor cu_seqlens(DType::i32, {static_cast<std::int64_t>(chunk.sequences.size()) + 1});
  std::int32_t at = 0;
  auto to = cu_seqlens.values<std::int32_t>().begin();
  *to++ = 0;
  for (const std::size_t sequence : chunk.sequences)
    *to++ = at += static_cast<std::int32_t>(tokens.length(sequence));
  return cu_seqlens;
}

// Writes the same number for every token, or what `values` holds for it.
template <class T>
void fill(const PackedTokens& tokens, const Chunk& chunk, std::span<const std::int32_t> values,
          T rest, std::span<T> to) {
  auto at = to.begin();
  for (const std::size_t sequence : chunk.sequences) {
    const auto begin = static_cast<std::size_t>(tokens.cu_seqlens[sequence]);
    for (std::size_t i = 0; i < tokens.length(sequence); ++i)
      *at++ = values.empty() ? rest : static_cast<T>(values[begin + i]);
  }
}

void count_positions(const PackedTokens& tokens, const Chunk& chunk, std::span<std::int32_t> to) {
  auto at = to.begin();
  for (const std::size_t sequence : chunk.sequences)
    for (std::size_t i = 0; i < tokens.length(sequence); ++i) *at++ = static_cast<std::int32_t>(i);
}

void fill(const PackedTokens& tokens, const Chunk& chunk, std::span<const std::int32_t> values,
          std::int32_t rest, const Tensor& to) {
  switch (to.dtype()) {
    case DType::i64:
      return fill<std::int64_t>(tokens, chunk, values, rest, to.values<std::int64_t>());
    case DType::i32:
      return fill<std::int32_t>(tokens, chunk, values, rest, to.values<std::int32_t>());
    case DType::f32:
      return fill<float>(tokens, chunk, values, static_cast<float>(rest), to.values<float>());
    case DType::boolean: return fill<bool>(tokens, chunk, values, rest != 0, to.values<bool>());
    default: throw Error(Code::unavailable, "token ids of this type");
  }
}

// ---- the runner -------------------------------------------------------------------------------

class CpuEncoderRunner final : public EncoderRunner {
 public:
  CpuEncoderRunner(const Graph& model, const EncoderOptions& options, compute::Workers& workers,
                   std::shared_ptr<cpu::ArenaPool> arenas)
      : graph_(model, options, workers),
        context_(std::make_shared<cpu::Context>(workers, std::move(arenas))) {}

  const PackedGraph& graph() const noexcept override { return graph_; }
  std::vector<SequenceError> run(const PackedTokens& tokens, std::span<const std::size_t> sequences,
                                 std::span<float> out) const override;
  std::shared_ptr<const Program> program(const Sizes& sizes) const override {
    if (auto made = programs_.find(sizes)) return made;
    auto made = std::make_shared<CpuProgram>(graph_.at(sizes), context_);
    programs_.add(sizes, made);
    return made;
  }

  std::vector<KernelTime> profile(const PackedTokens& tokens,
                                  std::span<const std::size_t> sequences) const override;

 private:
  static Sizes sizes_of(const Chunk& chunk) {
    return {static_cast<std::int64_t>(chunk.tokens),
            static_cast<std::int64_t>(chunk.sequences.size()),
            static_cast<std::int64_t>(chunk.longest)};
  }
  std::vector<Tensor> inputs(const PackedTokens& tokens, const Chunk& chunk) const;
  std::vector<SequenceError> run(const PackedTokens& tokens, const Chunk& chunk,
                                 std::span<float> out) const;

  const PackedGraph graph_;
  const std::shared_ptr<cpu::Context> context_;
  mutable ProgramCache programs_;
};

std::vector<Tensor> CpuEncoderRunner::inputs(const PackedTokens& tokens, const Chunk& chunk) const {
  const auto count = static_cast<std::int64_t>(chunk.tokens);
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    if (graph_.inputs()[i] == PackedGraph::Input::cu_seqlens) {
      made.push_back(cu_seqlens_of(tokens, chunk));
      continue;
    }
    made.emplace_back(graph_.input_type(i), Shape{1, count});
    switch (graph_.inputs()[i]) {
      case PackedGraph::Input::ids: fill(tokens, chunk, tokens.ids, 0, made.back()); break;
      case PackedGraph::Input::type_ids:
        fill(tokens, chunk, tokens.type_ids, 0, made.back());
        break;
      case PackedGraph::Input::mask: fill(tokens, chunk, {}, 1, made.back()); break;
      default: count_positions(tokens, chunk, made.back().values<std::int32_t>());
    }
  }
  return made;
}

std::vector<SequenceError> CpuEncoderRunner::run(const PackedTokens& tokens, const Chunk& chunk,
                                                 std::span<float> out) const {
  const Tensor result = program(sizes_of(chunk))->run(inputs(tokens, chunk))[0];
  return place_rows(tokens, graph_, chunk.sequences, result.values<float>().data(), out);
}

std::vector<SequenceError> CpuEncoderRunner::run(const PackedTokens& tokens,
                                                 std::span<const std::size_t> sequences,
                                                 std::span<float> out) const {
  compute::Workers& workers = context_->workers;
  std::vector<std::size_t> lengths;
  for (const std::size_t sequence : sequences) lengths.push_back(tokens.length(sequence));
  ChunkPlan plan = plan_chunks(lengths, static_cast<std::size_t>(workers.threads()));
  for (Chunk& chunk : plan.chunks)
    for (std::size_t& sequence : chunk.sequences) sequence = sequences[sequence];
  std::vector<std::vector<SequenceError>> errors(plan.chunks.size());
  const auto run_some = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      throw_if_cancelled();
      errors[i] = run(tokens, plan.chunks[i], out);
    }
  };
  if (plan.side_by_side)
    workers.each(plan.chunks.size(), 1,
                 [&](std::size_t begin, std::size_t end) { run_some(begin, end); });
  else
    run_some(0, plan.chunks.size());
  std::vector<SequenceError> all;
  for (std::vector<SequenceError>& more : errors) std::ranges::move(more, std::back_inserter(all));
  return all;
}

std::vector<KernelTime> CpuEncoderRunner::profile(const PackedTokens& tokens,
                                                  std::span<const std::size_t> sequences) const {
  Chunk chunk;
  for (const std::size_t sequence : sequences) {
    chunk.sequences.push_back(sequence);
    chunk.tokens += tokens.length(sequence);
    chunk.longest = std::max(chunk.longest, tokens.length(sequence));
  }
  const std::shared_ptr<const Program> program = this->program(sizes_of(chunk));
  std::vector<StepTime> steps;
  program->run(inputs(tokens, chunk), &steps);
  std::vector<KernelTime> times;
  for (const StepTime& step : steps)
    if (step.node != nullptr)
      times.push_back({describe(*step.node), std::string(step.kernel), step.us});
  return times;
}

}  // namespace

std::unique_ptr<EncoderRunner> make_cpu_encoder_runner(const Graph& model,
                                                       const EncoderOptions& options,
                                                       compute::Workers& workers,
                                                       std::shared_ptr<cpu::ArenaPool> arenas) {
  return std::make_unique<CpuEncoderRunner>(model, options, workers, std::move(arenas));
}

}  // namespace sluice::engine
