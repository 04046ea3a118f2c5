// A GPU: a batch runs in the program of a bucket that it fits in. The program of the best bucket is
// compiled in the background when a batch asks for it; until then the next larger one serves.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <utility>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "engine/encoder/encoder_runner.h"
#include "engine/encoder/token_buckets.h"
#include "engine/exec/cuda/bucket_program.h"

namespace sluice::engine {
namespace {

using Ready = std::shared_ptr<const BucketProgram>;

// A batch of this size needs little memory and keeps a large GPU busy: the first bucket.
constexpr std::int64_t kFirstTokens = 16'384;

BucketGraph::Input input_of(PackedGraph::Input input) {
  switch (input) {
    case PackedGraph::Input::ids: return BucketGraph::Input::ids;
    case PackedGraph::Input::type_ids: return BucketGraph::Input::type_ids;
    case PackedGraph::Input::mask: return BucketGraph::Input::ones;
    case PackedGraph::Input::positions: return BucketGraph::Input::positions;
    case PackedGraph::Input::cu_seqlens: return BucketGraph::Input::cu_seqlens;
  }
  throw Error(Code::internal, "an input of another kind");
}

// The programs of a model by bucket. Builds of the background share it.
class Buckets : public std::enable_shared_from_this<Buckets> {
 public:
  Buckets(const Graph& model, const EncoderOptions& options, compute::Workers& workers,
          const GpuSlots& gpu)
      : graph(model, options, workers, Backend::cuda),
        slots_(gpu.slots),
        builder_(gpu.builder),
        host_(std::make_shared<cpu::Context>(workers)) {
    if (graph.max_length() > kMaxBucketTokens)
      throw Error(Code::unavailable, "sequences of " + std::to_string(graph.max_length()) +
                                         " tokens; a GPU takes at most " +
                                         std::to_string(kMaxBucketTokens));
  }

  const PackedGraph graph;

  // Compiles a bucket that any sequence fits in.
  void build_first();

  // The ready program for so many tokens; null if they are more than largest().
  Ready find(std::int64_t tokens);
  std::int64_t largest() const;  // tokens of the largest ready bucket
  void ask_for(std::int64_t tokens);
  void wait_until_ready() const;  // until no build waits or runs

 private:
  // Whether nobody has asked for the bucket, or it may be tried again.
  bool begin(std::int64_t bucket);
  void end(std::int64_t bucket, Ready made, const std::exception_ptr& error);

  std::int64_t bucket_for(std::int64_t tokens) const;
  Ready build(std::int64_t bucket) const;

  const std::vector<std::int64_t> sizes_ = token_buckets();
  const std::shared_ptr<cuda::StreamSlotPool> slots_;
  const std::weak_ptr<compute::Executor> builder_;  // it may run the last reference to this
  const std::shared_ptr<cpu::Context> host_;
  mutable Mutex mutex_;
  std::map<std::int64_t, Ready> ready_ GUARDED_BY(mutex_);
  // Being built, or failed and not to be built before that.
  std::map<std::int64_t, Instant> asked_ GUARDED_BY(mutex_);
  int building_ GUARDED_BY(mutex_) = 0;
  mutable std::condition_variable_any built_;
};

std::int64_t Buckets::bucket_for(std::int64_t tokens) const {
  const auto found = std::ranges::lower_bound(sizes_, tokens);
  return found == sizes_.end() ? sizes_.back() : *found;
}

Ready Buckets::build(std::int64_t bucket) const {
  const std::int64_t sequences = std::min(bucket, kMaxBucketSequences);
  BucketGraph made{.graph = graph.at({bucket, sequences, std::min(bucket, graph.max_length())}),
                   .rows = graph.rows(),
                   .tokens = bucket,
                   .sequences = sequences,
                   .output = graph.pooled() ? kernels::RowsOf::sequences : kernels::RowsOf::tokens,
                   .width = graph.width()};
  for (const PackedGraph::Input input : graph.inputs()) made.inputs.push_back(input_of(input));
  Ready program = make_bucket_program(std::move(made), slots_, host_);
  program->prepare();
  return program;
}

// Smaller where memory is short.
void Buckets::build_first() {
  const std::int64_t least = bucket_for(graph.max_length());
  for (std::int64_t bucket = bucket_for(std::max(kFirstTokens, least));;
       bucket = bucket_for(std::max(bucket / 2, least)))
    try {
      Ready program = build(bucket);
      const Lock lock(mutex_);
      ready_[bucket] = std::move(program);
      return;
    } catch (const Error& error) {
      if (error.code() != Code::exhausted || bucket == least) throw;
    }
}

Ready Buckets::find(std::int64_t tokens) {
  ask_for(tokens);
  const Lock lock(mutex_);
  const auto found = ready_.lower_bound(tokens);
  return found == ready_.end() ? nullptr : found->second;
}

std::int64_t Buckets::largest() const {
  const Lock lock(mutex_);
  return ready_.rbegin()->first;
}

bool Buckets::begin(std::int64_t bucket) {
  const Lock lock(mutex_);
  if (ready_.contains(bucket)) return false;
  if (const auto asked = asked_.find(bucket);
      asked != asked_.end() && Steady::now() < asked->second)
    return false;
  asked_[bucket] = Instant::max();
  ++building_;
  return true;
}

// A bucket that lacked memory is tried again later.
void Buckets::end(std::int64_t bucket, Ready made, const std::exception_ptr& error) {
  constexpr std::chrono::seconds kPause(10);
  const Lock lock(mutex_);
  --building_;
  built_.notify_all();
  if (!error) {
    ready_[bucket] = std::move(made);
    return;
  }
  try {
    std::rethrow_exception(error);
  } catch (const Cancelled&) {  // the device ends
  } catch (const std::exception& failure) {
    const auto* const known = dynamic_cast<const Error*>(&failure);
    if (known != nullptr && known->code() == Code::exhausted)
      asked_[bucket] = Steady::now() + kPause;
    log::warn("no program for batches of {} tokens, smaller ones serve: {}", bucket,
              failure.what());
  }
}

void Buckets::ask_for(std::int64_t tokens) {
  const std::int64_t bucket = bucket_for(tokens);
  if (!begin(bucket)) return;
  try {
    const auto made = std::make_shared<Ready>();
    const auto run = [weak = weak_from_this(), bucket, made] {
      if (const auto self = weak.lock()) *made = self->build(bucket);
    };
    const auto done = [weak = weak_from_this(), bucket, made](const std::exception_ptr& error) {
      if (const auto self = weak.lock()) self->end(bucket, std::move(*made), error);
    };
    const auto builder = builder_.lock();
    if (builder && builder->submit({.run = run, .done = done})) return;
    throw Error(Code::exhausted, "too many programs wait to be compiled");
  } catch (const std::exception&) {
    end(bucket, nullptr, std::current_exception());
  }
}

void Buckets::wait_until_ready() const {
  const Lock lock(mutex_);
  while (building_ > 0) built_.wait(mutex_);
}

// Sequences that run together.
struct Batch {
  std::span<const std::size_t> sequences;
  kernels::LiveCounts counts;
};

// In order, of about equal numbers of tokens, each at most `most`.
std::vector<Batch> batches_of(const PackedTokens& tokens, std::span<const std::size_t> sequences,
                              std::int64_t most) {
  std::int64_t all = 0;
  for (const std::size_t sequence : sequences)
    all += static_cast<std::int64_t>(tokens.length(sequence));
  const std::int64_t count = (all + most - 1) / most;
  const std::int64_t share = count > 0 ? (all + count - 1) / count : 0;
  std::vector<Batch> batches;
  std::size_t begin = 0;
  kernels::LiveCounts counts;
  const auto end_at = [&](std::size_t end) {
    if (end > begin) batches.push_back({sequences.subspan(begin, end - begin), counts});
    begin = end, counts = {};
  };
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto length = static_cast<std::int32_t>(tokens.length(sequences[i]));
    if (counts.tokens >= share || counts.tokens + length > most ||
        counts.sequences == kMaxBucketSequences)
      end_at(i);
    counts.tokens += length;
    ++counts.sequences;
    counts.longest = std::max(counts.longest, length);
  }
  end_at(sequences.size());
  return batches;
}

void write_batch(const PackedTokens& tokens, std::span<const std::size_t> sequences,
                 const PackedBatchMemory& to) {
  std::int32_t at = 0, *ends = to.cu_seqlens;
  *ends++ = 0;
  for (const std::size_t sequence : sequences) {
    const auto from = static_cast<std::size_t>(tokens.cu_seqlens[sequence]);
    const std::size_t length = tokens.length(sequence);
    std::ranges::copy(tokens.ids.subspan(from, length), to.ids + at);
    if (to.type_ids != nullptr)
      std::ranges::copy(tokens.type_ids.subspan(from, length), to.type_ids + at);
    *ends++ = at += static_cast<std::int32_t>(length);
  }
}

class CudaEncoderRunner final : public EncoderRunner {
 public:
  CudaEncoderRunner(const Graph& model, const EncoderOptions& options, compute::Workers& workers,
                    const GpuSlots& gpu)
      : gpu_(gpu), buckets_(std::make_shared<Buckets>(model, options, workers, gpu)) {
    buckets_->build_first();
  }

  const PackedGraph& graph() const noexcept override { return buckets_->graph; }
  std::vector<SequenceError> run(const PackedTokens& tokens, std::span<const std::size_t> sequences,
                                 std::span<float> out) const override;
  std::vector<KernelTime> profile(const PackedTokens& tokens,
                                  std::span<const std::size_t> sequences) const override;
  void wait_until_ready() const override { buckets_->wait_until_ready(); }

 private:
  struct Running {
    std::span<const std::size_t> sequences;
    Ready program;  // outlives the call
    std::unique_ptr<BucketProgram::Call> call;
  };
  Running start(const PackedTokens& tokens, const Batch& batch, bool may_wait) const;

  const GpuSlots gpu_;
  const std::shared_ptr<Buckets> buckets_;
};

CudaEncoderRunner::Running CudaEncoderRunner::start(const PackedTokens& tokens, const Batch& batch,
                                                    bool may_wait) const {
  const bool has_types = graph().takes_types() && !tokens.type_ids.empty();
  Running made{batch.sequences, buckets_->find(batch.counts.tokens), nullptr};
  made.call = made.program->start(
      batch.counts, has_types,
      [&](const PackedBatchMemory& to) { write_batch(tokens, batch.sequences, to); }, may_wait);
  return made;
}

// While a batch computes, the next is written and copied on another slot, if one is free.
std::vector<SequenceError> CudaEncoderRunner::run(const PackedTokens& tokens,
                                                  std::span<const std::size_t> sequences,
                                                  std::span<float> out) const {
  if (sequences.empty()) return {};
  std::vector<SequenceError> errors;
  std::deque<Running> running;
  const auto finish_first = [&] {
    const Running first = std::move(running.front());
    running.pop_front();
    auto more = place_rows(tokens, graph(), first.sequences, first.call->wait(), out);
    errors.insert(errors.end(), more.begin(), more.end());
  };
  std::int64_t all = 0;
  for (const std::size_t sequence : sequences)
    all += static_cast<std::int64_t>(tokens.length(sequence));
  buckets_->ask_for(all);
  for (const Batch& batch : batches_of(tokens, sequences, buckets_->largest())) {
    throw_if_cancelled();
    Running next = start(tokens, batch, running.empty());
    while (!next.call) {
      finish_first();
      next = start(tokens, batch, running.empty());
    }
    running.push_back(std::move(next));
  }
  while (!running.empty()) finish_first();
  return errors;
}

std::vector<KernelTime> CudaEncoderRunner::profile(const PackedTokens& tokens,
                                                   std::span<const std::size_t> sequences) const {
  const std::vector<Batch> batches = batches_of(tokens, sequences, buckets_->largest());
  require(batches.size() == 1,
          "a profile is of one batch, not of " + std::to_string(batches.size()) + " batches");
  const Ready program = buckets_->find(batches[0].counts.tokens);
  return program->profile(batches[0].counts, graph().takes_types() && !tokens.type_ids.empty(),
                          [&](const PackedBatchMemory& to) { write_batch(tokens, sequences, to); });
}

}  // namespace

std::unique_ptr<EncoderRunner> make_cuda_encoder_runner(const Graph& model,
                                                        const EncoderOptions& options,
                                                        compute::Workers& workers,
                                                        const GpuSlots& gpu) {
  return std::make_unique<CudaEncoderRunner>(model, options, workers, gpu);
}

}  // namespace sluice::engine
