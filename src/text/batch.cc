#include "text/batch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "text/encode_one.h"
#include "text/id_encoder.h"

namespace sluice::text {
namespace {

constexpr std::size_t kTextsPerTurn = 32;

// What stands around each text, and how long it may be.
struct Frame {
  std::vector<std::uint32_t> before, behind;
  std::size_t most = std::numeric_limits<std::size_t>::max();  // ids of the text itself
  TruncationSide side = TruncationSide::right;
};

struct Turn {
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> lengths;
};

void append_framed(std::string_view text, const IdEncoder& encoder, const Frame& frame,
                   IdScratch& scratch) {
  scratch.ids.append(frame.before);
  const std::size_t begin = scratch.ids.size();
  const bool cuts_right = frame.side == TruncationSide::right;
  encoder.append(text, scratch, cuts_right ? frame.most : std::numeric_limits<std::size_t>::max());
  const std::size_t length = scratch.ids.size() - begin;
  if (length > frame.most && !cuts_right) {
    std::uint32_t* ids = scratch.ids.reserve(0) - length;
    std::copy(ids + (length - frame.most), ids + length, ids);
  }
  scratch.ids.shorten(begin + std::min(length, frame.most));
  scratch.ids.append(frame.behind);
}

}  // namespace

struct BatchEncoder::State {
  explicit State(const Pipeline& of) : pipeline(of), encoder(make_id_encoder(of)) {}

  std::unique_ptr<IdScratch> take() {
    const Lock lock(mutex);
    if (idle.empty()) return std::make_unique<IdScratch>();
    auto scratch = std::move(idle.back());
    idle.pop_back();
    return scratch;
  }
  void give(std::unique_ptr<IdScratch> scratch) {
    scratch->ids = {};
    const Lock lock(mutex);
    idle.push_back(std::move(scratch));
  }

  const Pipeline& pipeline;
  std::unique_ptr<IdEncoder> encoder;
  Mutex mutex;
  std::vector<std::unique_ptr<IdScratch>> idle GUARDED_BY(mutex);
};

namespace {

Frame frame_of(const Pipeline& pipeline, const BatchOptions& options, bool& is_simple) {
  Frame frame;
  is_simple = true;
  if (options.add_special && pipeline.processor)
    is_simple = pipeline.processor->frame(frame.before, frame.behind);
  if (!options.truncation) return frame;
  const std::size_t added = frame.before.size() + frame.behind.size();
  require(options.truncation->max_length >= added, "the length leaves no room for special tokens");
  require(options.truncation->strategy != TruncationStrategy::only_second,
          "truncation is to shorten the second text, and there is one only");
  frame.most = options.truncation->max_length - added;
  frame.side = options.truncation->side;
  return frame;
}

// The texts that threads take turns at. Errors end it; the first one is thrown.
class Turns {
 public:
  Turns(std::span<const std::string_view> texts, const IdEncoder& encoder, const Frame& frame)
      : texts_(texts),
        encoder_(encoder),
        frame_(frame),
        turns_((texts.size() + kTextsPerTurn - 1) / kTextsPerTurn) {}

  void work(IdScratch& scratch) noexcept {
    try {
      for (std::size_t turn = next_++; turn < turns_.size(); turn = next_++) run(turn, scratch);
    } catch (...) {
      next_ = turns_.size();
      const Lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  Batch take() {
    const Lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    Batch batch;
    std::size_t total = 0;
    for (const Turn& turn : turns_) total += turn.ids.size();
    batch.ids.reserve(total);
    batch.cu_seqlens.reserve(texts_.size() + 1);
    for (Turn& turn : turns_) {
      batch.ids.insert(batch.ids.end(), turn.ids.begin(), turn.ids.end());
      for (const std::size_t length : turn.lengths)
        batch.cu_seqlens.push_back(batch.cu_seqlens.back() + length);
      turn = {};
    }
    return batch;
  }

  std::size_t size() const noexcept { return turns_.size(); }

 private:
  void run(std::size_t number, IdScratch& scratch) {
    Turn& turn = turns_[number];
    scratch.ids.shorten(0);
    const std::size_t begin = number * kTextsPerTurn;
    for (const auto text : texts_.subspan(begin, std::min(kTextsPerTurn, texts_.size() - begin))) {
      require_size(text);
      const std::size_t had = scratch.ids.size();
      append_framed(text, encoder_, frame_, scratch);
      turn.lengths.push_back(scratch.ids.size() - had);
    }
    const auto ids = scratch.ids.from(0);
    turn.ids.assign(ids.begin(), ids.end());
  }

  std::span<const std::string_view> texts_;
  const IdEncoder& encoder_;
  const Frame& frame_;
  std::vector<Turn> turns_;
  std::atomic<std::size_t> next_{0};
  Mutex mutex_;
  std::exception_ptr failure_ GUARDED_BY(mutex_);
};

// With a post-processor that does more than put tokens around.
Batch encode_one_by_one(const Pipeline& pipeline, std::span<const std::string_view> texts,
                        const BatchOptions& options) {
  Batch batch;
  const OneEncoder one(pipeline);
  auto truncation = options.truncation;
  if (truncation) truncation->keeps_overflow = false;
  for (const auto text : texts) {
    std::vector<Encoding> list;
    list.push_back(one.encode(text, 0, OffsetUnit::bytes));
    const auto encoding =
        process(pipeline.processor.get(), std::move(list), options.add_special, truncation);
    batch.ids.insert(batch.ids.end(), encoding.ids.begin(), encoding.ids.end());
    batch.cu_seqlens.push_back(batch.ids.size());
  }
  return batch;
}

}  // namespace

BatchEncoder::BatchEncoder(const Pipeline& pipeline) : state_(new State(pipeline)) {}
BatchEncoder::~BatchEncoder() = default;

Batch BatchEncoder::encode(std::span<const std::string_view> texts,
                           const BatchOptions& options) const {
  bool is_simple = true;
  const Frame frame = frame_of(state_->pipeline, options, is_simple);
  if (!is_simple) return encode_one_by_one(state_->pipeline, texts, options);
  Turns turns(texts, *state_->encoder, frame);
  const std::size_t wanted =
      options.threads == 0 ? std::thread::hardware_concurrency() : options.threads;
  const std::size_t count =
      std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, turns.size()));
  const auto work = [&] {
    auto scratch = state_->take();
    turns.work(*scratch);
    state_->give(std::move(scratch));
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
  }
  return turns.take();
}

}  // namespace sluice::text
