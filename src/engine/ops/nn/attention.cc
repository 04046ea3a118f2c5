// Attention with masks and a KV cache.
#include "engine/ops/families.h"
#include "engine/ops/nn/attention_layout.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

// The stage after which the scores are an output (qk_matmul_output_mode).
enum class Shown { qk, capped, masked, softmax };

struct Inputs {
  HeadLayout q, k, v;
  std::int64_t past = 0, keys = 0;    // keys: including past ones
  Tensor key{}, value{};              // [batch, heads, keys, size], widened
  Tensor mask{};                      // widened; a boolean mask becomes 0 or -inf
  bool broadcast_mask = true;         // a mask of one key applies to all keys
  std::vector<std::int64_t> valid{};  // valid keys per batch entry; empty: all
  bool causal = false;
  double root_scale = 1, cap = 0;
  Shown shown = Shown::qk;

  // Whether query `i` of an image may attend to key `j`.
  bool sees(std::int64_t image, std::int64_t i, std::int64_t j) const {
    const auto own = static_cast<std::size_t>(image);
    if (!valid.empty() && j >= valid[own]) return false;
    if (!causal) return true;
    const std::int64_t before = past > 0 || valid.empty() ? past : valid[own] - q.length;
    return j <= i + before;
  }
};

// Concatenates past and new keys or values.
template <class T>
void join(const Tensor& past, const Tensor& now, const HeadLayout& heads, const Tensor& both) {
  const std::int64_t all = both.shape()[2], before = all - heads.length;
  T* to = as<T>(both).data();
  for (std::int64_t image = 0; image < heads.batch; ++image)
    for (std::int64_t head = 0; head < heads.count; ++head) {
      if (before > 0)
        to = std::copy_n(as<T>(past).data() + (image * heads.count + head) * before * heads.size,
                         before * heads.size, to);
      for (std::int64_t i = 0; i < heads.length; ++i)
        to = std::copy_n(as<T>(now).data() + heads.at(image, head, i), heads.size, to);
    }
}

Tensor with_past(const Tensor& past, const Tensor& now, const HeadLayout& heads) {
  std::int64_t before = 0;
  if (past) {
    require(past.rank() == 4 && past.dtype() == now.dtype() && past.shape()[0] == heads.batch &&
                past.shape()[1] == heads.count && past.shape()[3] == heads.size,
            "the past of shape " + to_string(past.shape()));
    before = past.shape()[2];
  }
  const Tensor both(now.dtype(),
                    Shape{heads.batch, heads.count, before + heads.length, heads.size});
  visit_widths(now.dtype(), [&]<class T>() { join<T>(past, now, heads, both); });
  return both;
}

Tensor read_mask(OpCall& call, const Inputs& in) {
  Tensor mask = widened(call.input_or_none(3));
  if (!mask) return mask;
  if (call.input(3).dtype() == DType::boolean) {
    const Tensor bias(DType::f64, mask.shape());
    for (std::size_t i = 0; i < as<double>(bias).size(); ++i)
      as<double>(bias)[i] = as<double>(mask)[i] != 0 ? 0 : -std::numeric_limits<double>::infinity();
    mask = bias;
  }
  require(mask.rank() >= 1 && mask.rank() <= 4, "a mask of " + to_string(mask.shape()));
  Shape shape = mask.shape();
  while (shape.rank() < 4) shape.insert(0, 1);
  const auto fits = [&](int axis, std::int64_t size) {
    return shape[axis] == 1 || shape[axis] == size;
  };
  const bool keys = shape[3] == in.keys || (in.broadcast_mask ? shape[3] == 1 : shape[3] < in.keys);
  require(fits(0, in.q.batch) && fits(1, in.q.count) && fits(2, in.q.length) && keys,
          "a mask of " + to_string(mask.shape()) + " for " + std::to_string(in.keys) + " keys");
  return mask.reshaped(shape);
}

Shown read_shown(const Attributes& attributes) {
  const std::int64_t mode = attributes.integer("qk_matmul_output_mode", 0);
  require(mode >= 0 && mode <= 3, "qk_matmul_output_mode " + std::to_string(mode));
  return static_cast<Shown>(mode);
}

void check_heads(const Inputs& in) {
  require(in.q.batch == in.k.batch && in.k.batch == in.v.batch && in.k.length == in.v.length &&
              in.k.count == in.v.count && in.q.size == in.k.size,
          "Q, K and V do not match");
  require(in.k.count > 0 && in.q.count % in.k.count == 0,
          std::to_string(in.q.count) + " heads of queries for " + std::to_string(in.k.count) +
              " of keys");
}

Inputs read_inputs(OpCall& call) {
  const Attributes& attributes = call.attributes();
  const std::int64_t q_heads = attributes.integer("q_num_heads", 0);
  const std::int64_t kv_heads = attributes.integer("kv_num_heads", 0);
  Inputs in{.q = HeadLayout::of(call.input(0).shape(), q_heads, "Q"),
            .k = HeadLayout::of(call.input(1).shape(), kv_heads, "K"),
            .v = HeadLayout::of(call.input(2).shape(), kv_heads, "V")};
  check_heads(in);
  require(call.input(1).dtype() == call.input(0).dtype(), "Q and K of two element types");
  require(call.has(4) == call.has(5), "past_key and past_value must be given together");
  in.key = with_past(call.input_or_none(4), call.input(1), in.k);
  in.value = with_past(call.input_or_none(5), call.input(2), in.v);
  in.keys = in.key.shape()[2];
  in.past = in.keys - in.k.length;
  require(in.value.shape()[2] == in.keys, "past keys and values of two lengths");
  if (call.has(6)) {
    in.valid = call.integers(6);
    require(static_cast<std::int64_t>(in.valid.size()) == in.q.batch,
            "nonpad_kv_seqlen is not one for each image");
  }
  // From opset 24 on a shorter mask hides the keys behind it.
  in.broadcast_mask = call.version() < 24;
  in.mask = read_mask(call, in);
  in.causal = attributes.integer("is_causal", 0) != 0;
  in.root_scale = std::sqrt(attention_scale(attributes, in.q.size));
  in.cap = static_cast<double>(attributes.real("softcap", 0));
  in.shown = read_shown(attributes);
  return in;
}

// One head of one batch entry. Rounds to T after each operation, as the definition does.
template <class T>
class Head {
 public:
  using W = Wide<T>;

  Head(const Inputs& in, const T* query, const T* value, std::int64_t image, std::int64_t head)
      : in_(in), query_(query), image_(image), head_(head) {
    const std::int64_t group = head / (in.q.count / in.k.count);
    const std::int64_t from = (image * in.k.count + group) * in.keys;
    const W scale = rounded(static_cast<W>(in.root_scale));
    keys_.resize(static_cast<std::size_t>(in.keys * in.k.size));
    const T* const key = as<T>(in.key).data() + from * in.k.size;
    for (std::size_t i = 0; i < keys_.size(); ++i)
      keys_[i] = rounded(static_cast<W>(key[i]) * scale);
    value_ = value + from * in.v.size;
    scores_.resize(static_cast<std::size_t>(in.keys));
  }

  // `shown`: the optional output of the scores.
  void row(std::int64_t i, T* to, T* shown) {
    const W scale = rounded(static_cast<W>(in_.root_scale));
    std::vector<W> q(static_cast<std::size_t>(in_.q.size));
    const T* const from = query_ + in_.q.at(image_, head_, i);
    for (std::size_t k = 0; k < q.size(); ++k) q[k] = rounded(static_cast<W>(from[k]) * scale);
    for (std::int64_t j = 0; j < in_.keys; ++j)
      score(j) = rounded(dot(q.data(), keys_.data() + j * in_.q.size, in_.q.size));
    show(Shown::qk, shown);
    if (in_.cap > 0) {
      const W cap = static_cast<W>(in_.cap);
      for (W& s : scores_) s = rounded(std::tanh(s / cap) * cap);
    }
    show(Shown::capped, shown);
    const bool any = add_bias(i);
    show(Shown::masked, shown);
    if (any)
      softmax(scores_.data(), in_.keys);
    else
      std::fill(scores_.begin(), scores_.end(), W(0));
    for (W& s : scores_) s = rounded(s);
    show(Shown::softmax, shown);
    mix(to);
  }

 private:
  static W rounded(W value) { return static_cast<W>(T(value)); }
  W& score(std::int64_t j) { return scores_[static_cast<std::size_t>(j)]; }

  void show(Shown at, T* shown) const {
    if (shown != nullptr && in_.shown == at) std::copy(scores_.begin(), scores_.end(), shown);
  }

  W bias(std::int64_t i, std::int64_t j) const {
    if (!in_.mask) return 0;
    const Shape& shape = in_.mask.shape();
    const auto along = [&](int axis, std::int64_t at) { return shape[axis] == 1 ? 0 : at; };
    const std::int64_t row =
        (along(0, image_) * shape[1] + along(1, head_)) * shape[2] + along(2, i);
    if (j >= shape[3] && !in_.broadcast_mask) return -std::numeric_limits<W>::infinity();
    const auto at = static_cast<std::size_t>(row * shape[3] + along(3, j));
    return in_.mask.dtype() == DType::f32 ? static_cast<W>(as<float>(in_.mask)[at])
                                          : static_cast<W>(as<double>(in_.mask)[at]);
  }

  // False if the row is fully masked.
  bool add_bias(std::int64_t i) {
    bool any = false;
    for (std::int64_t j = 0; j < in_.keys; ++j) {
      const W b = in_.sees(image_, i, j) ? bias(i, j) : -std::numeric_limits<W>::infinity();
      any = any || b != -std::numeric_limits<W>::infinity();
      score(j) = rounded(score(j) + b);
    }
    return any;
  }

  void mix(T* to) const {
    std::vector<W> sums(static_cast<std::size_t>(in_.v.size));
    for (std::int64_t j = 0; j < in_.keys; ++j) {
      const W p = scores_[static_cast<std::size_t>(j)];
      const T* const from = value_ + j * in_.v.size;
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += p * static_cast<W>(from[k]);
    }
    std::copy(sums.begin(), sums.end(), to);
  }

  const Inputs& in_;
  const T *query_, *value_;
  std::int64_t image_, head_;
  std::vector<W> keys_, scores_;
};

template <class T>
void attend(OpCall& call, const Inputs& in, const Tensor& value, const Tensor& y,
            const Tensor& shown) {
  const HeadLayout out{in.q.batch, in.q.count, in.q.length, in.v.size, in.q.packed};
  call.workers.each(
      static_cast<std::size_t>(in.q.batch * in.q.count), 1,
      [&](std::size_t begin, std::size_t end) {
        for (std::size_t at = begin; at < end; ++at) {
          const auto own = static_cast<std::int64_t>(at);
          const std::int64_t image = own / in.q.count, head = own % in.q.count;
          Head<T> rows(in, as<T>(call.input(0)).data(), as<T>(value).data(), image, head);
          for (std::int64_t i = 0; i < in.q.length; ++i)
            rows.row(i, as<T>(y).data() + out.at(image, head, i),
                     shown ? as<T>(shown).data() + (own * in.q.length + i) * in.keys : nullptr);
        }
      });
}

void attention(OpCall& call) {
  const DType type = call.input(0).dtype();
  const Inputs in = read_inputs(call);
  const Shape shape = in.q.packed ? Shape{in.q.batch, in.q.length, in.q.count * in.v.size}
                                  : Shape{in.q.batch, in.q.count, in.q.length, in.v.size};
  call.declare_output(1, in.key.dtype(), in.key.shape());
  call.declare_output(2, in.value.dtype(), in.value.shape());
  const Tensor y = call.output(0, type, shape);
  Tensor shown;
  if (call.wants(3))
    shown = call.output(3, type, Shape{in.q.batch, in.q.count, in.q.length, in.keys});
  const Tensor value = in.value.dtype() == type ? in.value : narrowed(widened(in.value), type);
  visit_reals(type, [&]<class T>() { attend<T>(call, in, value, y, shown); });
  call.set_output(1, in.key);
  call.set_output(2, in.value);
}

constexpr Op kAttentionOps[] = {{"Attention", 23, kReals, attention}};

}  // namespace

std::span<const Op> attention_ops() { return kAttentionOps; }

}  // namespace sluice::engine
