// Packed sequences with random queries, keys and values, for the test and the benchmark of the
// Hopper flash attention kernel.
#pragma once

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/attention/flash_attention_sm90.h"
#include "kernels/common/device_for_gpu_tests.h"

namespace sluice::kernels::cuda {

// q, k and v as the encoders have them: one row for each token, with all heads of q, of k, of v.
class PackedSequences {
 public:
  PackedSequences(std::vector<std::int32_t> lengths, int heads, int head_size, RealType type,
                  unsigned seed)
      : lengths_(std::move(lengths)), heads_(heads), size_(head_size), type_(type) {
    cu_seqlens_ = {0};
    for (const std::int32_t length : lengths_) cu_seqlens_.push_back(cu_seqlens_.back() + length);
    longest_ = lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
    qkv_ = random_bits(static_cast<std::size_t>(tokens()) * row(), 2, type, seed);
    on_cu_seqlens_ = on_device(cu_seqlens_);
    on_out_ = device::device_buffer(static_cast<std::size_t>(tokens()) * width() * 2);
    on_live_ = on_device(std::vector<LiveCounts>{{tokens(), count(), longest_}});
    on_queue_ = on_device(std::vector<WorkQueue>{{}});
    upload();
  }

  int tokens() const { return cu_seqlens_.back(); }
  int count() const { return static_cast<int>(lengths_.size()); }
  std::size_t width() const { return static_cast<std::size_t>(heads_ * size_); }
  std::size_t row() const { return 3 * width(); }
  const std::vector<std::int32_t>& cu_seqlens() const { return cu_seqlens_; }
  Bits& qkv() { return qkv_; }
  void upload() { on_qkv_ = on_device(qkv_); }

  AttentionCall call() const {
    auto* const q = static_cast<const std::uint16_t*>(on_qkv_.get());
    const auto stride = static_cast<std::int64_t>(row());
    AttentionCall made{.q = q, .k = q + width(), .v = q + 2 * width()};
    made.cu_seqlens = static_cast<const std::int32_t*>(on_cu_seqlens_.get());
    made.live = static_cast<const LiveCounts*>(on_live_.get());
    made.out = on_out_.get();
    made.q_row = made.k_row = made.v_row = stride;
    made.q_batch = made.k_batch = made.v_batch = stride * longest_;
    made.out_batch = static_cast<std::int64_t>(width()) * longest_;
    made.batch = count(), made.heads = heads_, made.head_size = size_, made.tokens = tokens();
    made.queries = made.keys = longest_;
    made.scale = 1 / std::sqrt(static_cast<float>(size_));
    return made;
  }
  // The same sequences, of one length, as a batch that is not varlen.
  AttentionCall dense_call() const {
    AttentionCall made = call();
    made.cu_seqlens = nullptr, made.live = nullptr, made.tokens = 0;
    return made;
  }
  void set_live(const LiveCounts& live) {
    device::check(cudaMemcpy(on_live_.get(), &live, sizeof live, cudaMemcpyHostToDevice));
    device::check(cudaDeviceSynchronize());
  }
  WorkQueue* queue() const { return static_cast<WorkQueue*>(on_queue_.get()); }

  Bits run(const AttentionCall& call, const device::Stream& stream, WorkQueue* queue) const {
    Bits out(static_cast<std::size_t>(tokens()) * width());
    device::check(cudaMemsetAsync(on_out_.get(), 0xff, out.size() * 2, stream.get()));
    flash_attention_sm90(type_, call, {.stream = stream.get(), .queue = queue});
    stream.wait();
    device::check(cudaMemcpy(out.data(), on_out_.get(), out.size() * 2, cudaMemcpyDeviceToHost));
    return out;
  }

  double at(int token, int part, int head, int i) const {
    return static_cast<double>(float_of(
        qkv_[static_cast<std::size_t>(token) * row() + static_cast<std::size_t>(part) * width() +
             static_cast<std::size_t>(head * size_ + i)],
        type_));
  }
  // One row of the output of a sequence, in double precision, and the log of its denominator.
  struct Reference {
    std::vector<double> out;
    double lse;
  };
  // `valid`: how many of the keys the mask leaves.
  Reference reference(int sequence, int query, int head,
                      int valid = std::numeric_limits<int>::max()) const {
    const int first = cu_seqlens_[static_cast<std::size_t>(sequence)];
    const int length = std::min(lengths_[static_cast<std::size_t>(sequence)], valid);
    std::vector<double> scores(static_cast<std::size_t>(length));
    for (int key = 0; key < length; ++key)
      for (int i = 0; i < size_; ++i)
        scores[static_cast<std::size_t>(key)] += at(first + query, 0, head, i) *
                                                 at(first + key, 1, head, i) /
                                                 std::sqrt(static_cast<double>(size_));
    const double top = *std::max_element(scores.begin(), scores.end());
    for (double& score : scores) score = std::exp(score - top);
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    std::vector<double> out(static_cast<std::size_t>(size_));
    for (int key = 0; key < length; ++key)
      for (int i = 0; i < size_; ++i)
        out[static_cast<std::size_t>(i)] +=
            scores[static_cast<std::size_t>(key)] / sum * at(first + key, 2, head, i);
    return {std::move(out), top + std::log(sum)};
  }

 private:
  std::vector<std::int32_t> lengths_, cu_seqlens_;
  int heads_, size_;
  RealType type_;
  std::int32_t longest_ = 0;
  Bits qkv_;
  device::DeviceBuffer on_qkv_, on_out_, on_cu_seqlens_, on_live_, on_queue_;
};

inline bool has_flash_attention_sm90() {
  return is_hopper() && flash_attention_sm90_supports({.head_size = 64, .scale = 1});
}

}  // namespace sluice::kernels::cuda
