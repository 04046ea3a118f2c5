// FlexAttention (score modifiers as subgraphs), linear attention (a recurrent state) and
// RotaryEmbedding.
#include "engine/ops/families.h"
#include "engine/ops/nn/attention_layout.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

// Scores [batch, heads, queries, keys], one query head at a time.
template <class T>
void score_all(OpCall& call, const HeadLayout& q, const HeadLayout& k, double scale,
               const Tensor& query, const Tensor& key, const Tensor& scores) {
  const std::int64_t group = q.count / k.count;
  call.workers.each(
      static_cast<std::size_t>(q.batch * q.count), 1, [&](std::size_t begin, std::size_t end) {
        for (std::size_t at = begin; at < end; ++at) {
          const auto own = static_cast<std::int64_t>(at);
          T* to = as<T>(scores).data() + own * q.length * k.length;
          const std::int64_t image = own / q.count, head = own % q.count;
          for (std::int64_t i = 0; i < q.length; ++i)
            for (std::int64_t j = 0; j < k.length; ++j)
              *to++ = static_cast<T>(scale) * dot(as<T>(query).data() + q.at(image, head, i),
                                                  as<T>(key).data() + k.at(image, head / group, j),
                                                  q.size);
        }
      });
}

template <class T>
void mix_all(OpCall& call, const HeadLayout& q, const HeadLayout& v, const Tensor& scores,
             const Tensor& value, const Tensor& y) {
  const std::int64_t group = q.count / v.count;
  std::fill(as<T>(y).begin(), as<T>(y).end(), T(0));
  call.workers.each(static_cast<std::size_t>(q.batch * q.count), 1,
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t at = begin; at < end; ++at) {
                        const auto own = static_cast<std::int64_t>(at);
                        const std::int64_t image = own / q.count, head = own % q.count / group;
                        for (std::int64_t i = own * q.length; i < (own + 1) * q.length; ++i)
                          for (std::int64_t j = 0; j < v.length; ++j) {
                            const T p = as<T>(scores)[static_cast<std::size_t>(i * v.length + j)];
                            const T* const from = as<T>(value).data() + v.at(image, head, j);
                            T* const to = as<T>(y).data() + i * v.size;
                            for (std::int64_t k = 0; k < v.size; ++k) to[k] += p * from[k];
                          }
                      }
                    });
}

// Applies a subgraph to a tensor; shape and type must not change.
Tensor changed(OpCall& call, std::string_view name, const Tensor& tensor) {
  const Graph* const body = call.node.subgraph(name);
  if (body == nullptr) return tensor;
  const Datum given(tensor);
  require(body->inputs.size() == 1, std::string(name) + " takes one tensor");
  const std::vector<Datum> results = call.run_subgraph(*body, std::span(&given, 1));
  require(results.size() == 1 && results[0].kind == Datum::Kind::tensor &&
              results[0].tensor.shape() == tensor.shape() &&
              results[0].tensor.dtype() == tensor.dtype(),
          std::string(name) + " gives another shape or type than it takes");
  return results[0].tensor;
}

void flex_attention(OpCall& call) {
  const DType type = call.input(0).dtype();
  for (std::size_t i = 0; i < 3; ++i)
    require(call.input(i).rank() == 4 && call.input(i).dtype() == type,
            "Q, K and V have four axes and one element type");
  const HeadLayout q = HeadLayout::of(call.input(0).shape(), 0, "Q"),
                   k = HeadLayout::of(call.input(1).shape(), 0, "K"),
                   v = HeadLayout::of(call.input(2).shape(), 0, "V");
  require(q.batch == k.batch && k.batch == v.batch && k.count == v.count && k.length == v.length &&
              q.size == k.size && k.count > 0 && q.count % k.count == 0,
          "Q, K and V do not match");
  // Scores are f32 unless the node sets another type: half precision is too coarse.
  const DType precision = call.attributes().dtype("softmax_precision", wide_type(type));
  if (call.node.subgraphs.empty())
    call.declare_output(0, type, Shape{q.batch, q.count, q.length, v.size});
  const Tensor query = widened(call.input(0)), key = widened(call.input(1)),
               value = widened(call.input(2));
  const Tensor scores(query.dtype(), Shape{q.batch, q.count, q.length, k.length});
  const Tensor y(query.dtype(), Shape{q.batch, q.count, q.length, v.size});
  visit_wide(query.dtype(), [&]<class T>() {
    score_all<T>(call, q, k, attention_scale(call.attributes(), q.size), query, key, scores);
    const Tensor modified =
        narrowed(widened(changed(call, "score_mod", narrowed(scores, precision))), scores.dtype());
    const Tensor chances(scores.dtype(), scores.shape());
    std::copy(as<T>(modified).begin(), as<T>(modified).end(), as<T>(chances).begin());
    for (std::int64_t row = 0; k.length > 0 && row < scores.size() / k.length; ++row)
      softmax(as<T>(chances).data() + row * k.length, k.length);
    const Tensor mixed =
        narrowed(widened(changed(call, "prob_mod", narrowed(chances, precision))), scores.dtype());
    mix_all<T>(call, q, v, mixed, value, y);
  });
  call.set_output(0, narrowed(y, type));
}

// The state S is [key size, value size] per head; each step first decays it, then updates it.
struct Linear {
  HeadLayout q, k, v;
  Tensor query{}, key{}, value{}, past{}, decay{}, beta{};
  bool decays = false, corrects = false;  // corrects: delta rule
  double scale = 1;
};

Linear read_linear(OpCall& call) {
  const Attributes& attributes = call.attributes();
  const std::string rule = attributes.string("update_rule", "gated_delta");
  require(rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta",
          "update_rule '" + rule + "' is not known");
  const std::int64_t q_heads = attributes.integer("q_num_heads");
  const std::int64_t kv_heads = attributes.integer("kv_num_heads");
  Linear l{.q = HeadLayout::of(call.input(0).shape(), q_heads, "query"),
           .k = HeadLayout::of(call.input(1).shape(), kv_heads, "key"),
           .v = HeadLayout::of(call.input(2).shape(), kv_heads, "value"),
           .decays = rule.starts_with("gated"),
           .corrects = rule.ends_with("delta")};
  for (std::size_t i = 0; i < 6; ++i)
    require(!call.has(i) || call.input(i).dtype() == call.input(0).dtype() || i == 3,
            "inputs of two element types");
  l.query = widened(call.input(0));
  l.key = widened(call.input(1));
  l.value = widened(call.input(2));
  l.past = call.has(3) ? narrowed(widened(call.input(3)), l.query.dtype()) : Tensor();
  if (l.decays) l.decay = widened(call.input(4));
  if (l.corrects) l.beta = widened(call.input(5));
  l.scale = attributes.real("scale", 0) != 0 ? static_cast<double>(attributes.real("scale", 0))
                                             : 1 / std::sqrt(static_cast<double>(l.k.size));
  return l;
}

void check_linear(const Linear& l) {
  require(l.q.packed && l.k.packed && l.v.packed && l.q.batch == l.k.batch &&
              l.k.batch == l.v.batch && l.q.length == l.k.length && l.k.length == l.v.length &&
              l.q.size == l.k.size && l.q.count % l.k.count == 0,
          "query, key and value do not match");
  const auto per_step = [&](const Tensor& tensor, std::int64_t some, std::int64_t all) {
    return !tensor || tensor.shape() == Shape({l.k.batch, l.k.length, some}) ||
           tensor.shape() == Shape({l.k.batch, l.k.length, all});
  };
  require(per_step(l.decay, l.k.count, l.k.count * l.k.size),
          "a decay of " + to_string(l.decay.shape()));
  require(per_step(l.beta, 1, l.k.count), "a beta of " + to_string(l.beta.shape()));
  require(!l.past || l.past.shape() == Shape({l.k.batch, l.k.count, l.k.size, l.v.size}),
          "a state of " + to_string(l.past.shape()));
}

// One time step of one head: decays and updates the state.
template <class T>
void write_state(const Linear& l, std::int64_t image, std::int64_t head, std::int64_t step,
                 T* state) {
  const std::int64_t keys = l.k.size, values = l.v.size, row = image * l.k.length + step;
  if (l.decays) {
    const std::int64_t each =
        l.decay.shape()[2] / l.k.count;  // one per head, or one per key element
    const T* const decay = as<T>(l.decay).data() + (row * l.k.count + head) * each;
    for (std::int64_t i = 0; i < keys; ++i) {
      const T by = std::exp(decay[each == 1 ? 0 : i]);
      for (std::int64_t j = 0; j < values; ++j) state[i * values + j] *= by;
    }
  }
  const T* const key = as<T>(l.key).data() + l.k.at(image, head, step);
  const T* const value = as<T>(l.value).data() + l.v.at(image, head, step);
  std::vector<T> written(value, value + values);
  if (l.corrects) {
    const std::int64_t each = l.beta.shape()[2];
    const T beta = as<T>(l.beta)[static_cast<std::size_t>(row * each + (each == 1 ? 0 : head))];
    for (std::int64_t i = 0; i < keys; ++i)
      for (std::int64_t j = 0; j < values; ++j)
        written[static_cast<std::size_t>(j)] -= key[i] * state[i * values + j];
    for (T& part : written) part *= beta;
  }
  for (std::int64_t i = 0; i < keys; ++i)
    for (std::int64_t j = 0; j < values; ++j)
      state[i * values + j] += key[i] * written[static_cast<std::size_t>(j)];
}

template <class T>
void walk_head(const Linear& l, std::int64_t image, std::int64_t head, T* state,
               const Tensor& out) {
  const std::int64_t group = l.q.count / l.k.count;
  const HeadLayout y{l.q.batch, l.q.count, l.q.length, l.v.size, true};
  for (std::int64_t step = 0; step < l.k.length; ++step) {
    write_state(l, image, head, step, state);
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const T* const query = as<T>(l.query).data() + l.q.at(image, h, step);
      T* const to = as<T>(out).data() + y.at(image, h, step);
      std::fill_n(to, l.v.size, T(0));
      for (std::int64_t i = 0; i < l.k.size; ++i)
        for (std::int64_t j = 0; j < l.v.size; ++j) to[j] += query[i] * state[i * l.v.size + j];
      for (std::int64_t j = 0; j < l.v.size; ++j) to[j] *= static_cast<T>(l.scale);
    }
  }
}

void linear_attention(OpCall& call) {
  const DType type = call.input(0).dtype();
  const Linear l = read_linear(call);
  check_linear(l);
  const Shape made{l.q.batch, l.q.length, l.q.count * l.v.size},
      kept{l.k.batch, l.k.count, l.k.size, l.v.size};
  call.declare_output(0, type, made);
  call.declare_output(1, call.has(3) ? call.input(3).dtype() : type, kept);
  const Tensor out(l.query.dtype(), made), state(l.query.dtype(), kept);
  visit_wide(l.query.dtype(), [&]<class T>() {
    if (l.past)
      std::copy(as<T>(l.past).begin(), as<T>(l.past).end(), as<T>(state).begin());
    else
      std::fill(as<T>(state).begin(), as<T>(state).end(), T(0));
    call.workers.each(static_cast<std::size_t>(l.k.batch * l.k.count), 1,
                      [&](std::size_t begin, std::size_t end) {
                        for (std::size_t at = begin; at < end; ++at) {
                          const auto own = static_cast<std::int64_t>(at);
                          walk_head(l, own / l.k.count, own % l.k.count,
                                    as<T>(state).data() + own * l.k.size * l.v.size, out);
                        }
                      });
  });
  call.set_output(0, narrowed(out, type));
  call.set_output(1, narrowed(state, call.has(3) ? call.input(3).dtype() : type));
}

// Sine and cosine are rows of a cache by position, or given per token.
struct Rotary {
  HeadLayout heads;
  std::int64_t pairs = 0;
  bool interleaved = false;
  Tensor cos{}, sin{};
  std::vector<std::int64_t> positions{};  // empty: one row per token

  std::int64_t row(std::int64_t image, std::int64_t token) const {
    const std::int64_t at = image * heads.length + token;
    return positions.empty() ? at : positions[static_cast<std::size_t>(at)];
  }
};

Rotary read_rotary(OpCall& call) {
  const Attributes& attributes = call.attributes();
  Rotary r{
      .heads = HeadLayout::of(call.input(0).shape(), attributes.integer("num_heads", 0), "input"),
      .interleaved = attributes.flag("interleaved"),
      .cos = widened(call.input(1)),
      .sin = widened(call.input(2))};
  const std::int64_t rotary_dim = attributes.integer("rotary_embedding_dim", 0);
  require(rotary_dim >= 0 && rotary_dim <= r.heads.size && rotary_dim % 2 == 0,
          "rotary_embedding_dim " + std::to_string(rotary_dim));
  r.pairs = (rotary_dim == 0 ? r.heads.size : rotary_dim) / 2;
  require(r.cos.shape() == r.sin.shape() && call.input(1).dtype() == call.input(0).dtype() &&
              call.input(2).dtype() == call.input(0).dtype(),
          "cos and sin of two shapes or element types");
  const Shape& cache = r.cos.shape();
  if (!call.has(3)) {
    require(cache == Shape({r.heads.batch, r.heads.length, r.pairs}),
            "angles of shape " + to_string(cache));
    return r;
  }
  require(cache.rank() == 2 && cache[1] == r.pairs, "angles of shape " + to_string(cache));
  require(call.input(3).shape() == Shape({r.heads.batch, r.heads.length}),
          "positions of shape " + to_string(call.input(3).shape()));
  r.positions = call.integers(3);
  for (const std::int64_t position : r.positions)
    require(position >= 0 && position < cache[0],
            "position " + std::to_string(position) + " of " + std::to_string(cache[0]));
  return r;
}

template <class T>
void rotate(const Rotary& r, const T* from, const T* cos, const T* sin, T* to) {
  std::copy_n(from, r.heads.size, to);
  for (std::int64_t i = 0; i < r.pairs; ++i) {
    const std::int64_t a = r.interleaved ? 2 * i : i, b = r.interleaved ? a + 1 : i + r.pairs;
    to[a] = cos[i] * from[a] - sin[i] * from[b];
    to[b] = sin[i] * from[a] + cos[i] * from[b];
  }
}

void rotary_embedding(OpCall& call) {
  const Rotary r = read_rotary(call);
  call.declare_output(0, call.input(0).dtype(), call.input(0).shape());
  const Tensor x = widened(call.input(0)), y(x.dtype(), x.shape());
  visit_wide(x.dtype(), [&]<class T>() {
    for (std::int64_t image = 0; image < r.heads.batch; ++image)
      for (std::int64_t head = 0; head < r.heads.count; ++head)
        for (std::int64_t token = 0; token < r.heads.length; ++token) {
          const std::int64_t at = r.heads.at(image, head, token);
          const std::int64_t angles = r.row(image, token) * r.pairs;
          rotate(r, as<T>(x).data() + at, as<T>(r.cos).data() + angles,
                 as<T>(r.sin).data() + angles, as<T>(y).data() + at);
        }
  });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

constexpr Op kAttentionMoreOps[] = {
    {"FlexAttention", 1, kReals, flex_attention, "ai.onnx.preview"},
    {"LinearAttention", 27, kReals, linear_attention},
    {"RotaryEmbedding", 23, kReals, rotary_embedding},
};

}  // namespace

std::span<const Op> attention_variant_ops() { return kAttentionMoreOps; }

}  // namespace sluice::engine
