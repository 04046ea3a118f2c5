#include "engine/encoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <list>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/mutex.h"
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

}  // namespace

struct EncoderDevice::Impl {
  Impl(compute::Workers& on, const compute::ExecutorOptions& options)
      : workers(on), executor(options) {}

  compute::Workers& workers;
  const std::shared_ptr<cpu::ArenaPool> arenas = std::make_shared<cpu::ArenaPool>();
  compute::Executor executor;  // ends first: its calls use the rest
};

struct Encoder::Impl {
  Impl(const Graph& model, const EncoderDevice::Impl& device, const EncoderOptions& options)
      : graph(model, options, device.workers),
        context(std::make_shared<cpu::Context>(device.workers, device.arenas)) {}

  std::shared_ptr<const Program> program(const Sizes& sizes) const {
    if (auto made = programs.find(sizes)) return made;
    auto made = std::make_shared<CpuProgram>(graph.at(sizes), context);
    programs.add(sizes, made);
    return made;
  }
  std::string fault(const PackedTokens& tokens, std::size_t sequence) const;
  std::vector<Tensor> inputs(const PackedTokens& tokens, const Chunk& chunk) const;
  std::vector<SequenceError> run(const PackedTokens& tokens, std::span<float> out) const;
  std::vector<std::vector<SequenceError>> run_chunks(const PackedTokens& tokens,
                                                     std::span<const std::size_t> sequences,
                                                     std::span<const std::size_t> lengths,
                                                     std::span<float> out) const;
  std::size_t row_of(const PackedTokens& tokens, std::size_t sequence) const {
    return graph.pooled() ? sequence : static_cast<std::size_t>(tokens.cu_seqlens[sequence]);
  }
  std::vector<SequenceError> run(const PackedTokens& tokens, const Chunk& chunk,
                                 std::span<float> out) const;

  const PackedGraph graph;
  const std::shared_ptr<cpu::Context> context;
  mutable ProgramCache programs;
};

namespace {

std::size_t length_of(const PackedTokens& tokens, std::size_t sequence) {
  return static_cast<std::size_t>(tokens.cu_seqlens[sequence + 1] - tokens.cu_seqlens[sequence]);
}

// The first value outside [0, limit), as an error.
std::string outside(std::span<const std::int32_t> values, std::int64_t limit, const char* what) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= limit)
      return std::string(what) + " " + std::to_string(values[i]) + " at token " +
             std::to_string(i) + " is not in 0 to " + std::to_string(limit - 1);
  return "";
}

Tensor offsets(const PackedTokens& tokens, const Chunk& chunk) {
  Tensor cu_seqlens(DType::i32, {static_cast<std::int64_t>(chunk.sequences.size()) + 1});
  std::int32_t at = 0;
  auto to = cu_seqlens.values<std::int32_t>().begin();
  *to++ = 0;
  for (const std::size_t sequence : chunk.sequences)
    *to++ = at += static_cast<std::int32_t>(length_of(tokens, sequence));
  return cu_seqlens;
}

// Writes the same number for every token, or what `values` holds for it.
template <class T>
void fill(const PackedTokens& tokens, const Chunk& chunk, std::span<const std::int32_t> values,
          T rest, std::span<T> to) {
  auto at = to.begin();
  for (const std::size_t sequence : chunk.sequences) {
    const auto begin = static_cast<std::size_t>(tokens.cu_seqlens[sequence]);
    for (std::size_t i = 0; i < length_of(tokens, sequence); ++i)
      *at++ = values.empty() ? rest : static_cast<T>(values[begin + i]);
  }
}

void count_positions(const PackedTokens& tokens, const Chunk& chunk, std::span<std::int32_t> to) {
  auto at = to.begin();
  for (const std::size_t sequence : chunk.sequences)
    for (std::size_t i = 0; i < length_of(tokens, sequence); ++i)
      *at++ = static_cast<std::int32_t>(i);
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

}  // namespace

// Why the sequence cannot be computed; empty if it can.
std::string Encoder::Impl::fault(const PackedTokens& tokens, std::size_t sequence) const {
  const std::int32_t begin = tokens.cu_seqlens[sequence], end = tokens.cu_seqlens[sequence + 1];
  if (begin < 0 || end < begin || static_cast<std::size_t>(end) > tokens.ids.size())
    return "cu_seqlens go from " + std::to_string(begin) + " to " + std::to_string(end) + " in " +
           std::to_string(tokens.ids.size()) + " tokens";
  if (begin == end) return "it has no tokens";
  const auto from = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(end - begin);
  if (static_cast<std::int64_t>(count) > graph.max_length())
    return std::to_string(count) + " tokens; the model takes at most " +
           std::to_string(graph.max_length());
  if (auto why = outside(tokens.ids.subspan(from, count), graph.vocabulary(), "token id");
      !why.empty())
    return why;
  if (const auto padding = graph.padding_id();
      padding && std::ranges::find(tokens.ids.subspan(from, count), *padding) !=
                     tokens.ids.subspan(from, count).end())
    return "token id " + std::to_string(*padding) + " is the model's padding";
  if (tokens.type_ids.empty()) return "";
  if (graph.takes_types() && graph.token_types() == 0)
    return "";  // any that the model computes with
  return outside(tokens.type_ids.subspan(from, count),
                 std::max<std::int64_t>(1, graph.token_types()), "token type");
}

std::vector<Tensor> Encoder::Impl::inputs(const PackedTokens& tokens, const Chunk& chunk) const {
  const auto count = static_cast<std::int64_t>(chunk.tokens);
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.inputs()[i] == PackedGraph::Input::cu_seqlens) {
      made.push_back(offsets(tokens, chunk));
      continue;
    }
    made.emplace_back(graph.input_type(i), Shape{1, count});
    switch (graph.inputs()[i]) {
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

std::vector<SequenceError> Encoder::Impl::run(const PackedTokens& tokens, const Chunk& chunk,
                                              std::span<float> out) const {
  const Sizes sizes{static_cast<std::int64_t>(chunk.tokens),
                    static_cast<std::int64_t>(chunk.sequences.size()),
                    static_cast<std::int64_t>(chunk.longest)};
  const Tensor result = program(sizes)->run(inputs(tokens, chunk))[0];
  const auto width = static_cast<std::size_t>(graph.width());
  const float* from = result.values<float>().data();
  std::vector<SequenceError> errors;
  for (const std::size_t sequence : chunk.sequences) {
    const std::size_t count = (graph.pooled() ? 1 : length_of(tokens, sequence)) * width;
    float* const to = out.data() + row_of(tokens, sequence) * width;
    if (std::all_of(from, from + count, [](float x) { return std::isfinite(x); }))
      std::copy(from, from + count, to);
    else
      errors.push_back({sequence, "its result is not finite"});
    from += count;
  }
  return errors;
}

std::vector<SequenceError> Encoder::Impl::run(const PackedTokens& tokens,
                                              std::span<float> out) const {
  const std::size_t rows = graph.pooled() ? tokens.sequences() : tokens.ids.size();
  const auto width = static_cast<std::size_t>(graph.width());
  require(out.size() == rows * width, "room for " + std::to_string(out.size()) +
                                          " numbers, where " + std::to_string(rows) + " rows of " +
                                          std::to_string(width) + " are made");
  require(tokens.type_ids.empty() || tokens.type_ids.size() == tokens.ids.size(),
          std::to_string(tokens.type_ids.size()) + " token types for " +
              std::to_string(tokens.ids.size()) + " token ids");
  std::ranges::fill(out, 0.0f);
  std::vector<SequenceError> errors;
  std::vector<std::size_t> good, lengths;
  for (std::size_t i = 0; i < tokens.sequences(); ++i) {
    if (std::string why = fault(tokens, i); !why.empty()) {
      errors.push_back({i, std::move(why)});
      continue;
    }
    good.push_back(i);
    lengths.push_back(length_of(tokens, i));
  }
  for (std::vector<SequenceError>& more : run_chunks(tokens, good, lengths, out))
    std::ranges::move(more, std::back_inserter(errors));
  std::ranges::sort(errors, {}, &SequenceError::sequence);
  return errors;
}

// The errors of each chunk.
std::vector<std::vector<SequenceError>> Encoder::Impl::run_chunks(
    const PackedTokens& tokens, std::span<const std::size_t> sequences,
    std::span<const std::size_t> lengths, std::span<float> out) const {
  compute::Workers& workers = context->workers;
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
  return errors;
}

// ---- the device and the encoder -------------------------------------------------------------

EncoderDevice::EncoderDevice(compute::Workers& workers, const compute::ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(workers, options)) {}

EncoderDevice::~EncoderDevice() = default;

compute::Workers& EncoderDevice::workers() const noexcept { return impl_->workers; }
compute::ExecutorCounts EncoderDevice::counts() const { return impl_->executor.counts(); }
std::size_t EncoderDevice::arena_bytes() const { return impl_->arenas->free_bytes(); }
std::size_t EncoderDevice::trim() noexcept { return impl_->arenas->trim(); }

Encoder::Encoder(const Graph& model, EncoderDevice& device, const EncoderOptions& options)
    : impl_(std::make_shared<Impl>(model, *device.impl_, options)), device_(&device) {}

Encoder::Encoder(const Graph& model, compute::Workers& workers, const EncoderOptions& options)
    : own_(std::make_unique<EncoderDevice>(workers)), device_(own_.get()) {
  impl_ = std::make_shared<Impl>(model, *device_->impl_, options);
}

Encoder::~Encoder() = default;

const PackedGraph& Encoder::graph() const noexcept { return impl_->graph; }

std::shared_ptr<const Program> Encoder::program(const Sizes& sizes) const {
  return impl_->program(sizes);
}

std::vector<SequenceError> Encoder::run(const PackedTokens& tokens, std::span<float> out) const {
  return impl_->run(tokens, out);
}

std::optional<compute::Executor::Ticket> Encoder::submit(
    const EncodeRequest& request, std::function<void(EncodeResult)> done) const {
  const auto errors = std::make_shared<std::vector<SequenceError>>();
  return device_->impl_->executor.submit(
      {.run = [impl = impl_, request, errors] { *errors = impl->run(request.tokens, request.out); },
       .done =
           [errors, done = std::move(done)](std::exception_ptr error) {
             done({.errors = std::move(*errors), .error = std::move(error)});
           },
       .deadline = request.deadline});
}

}  // namespace sluice::engine
