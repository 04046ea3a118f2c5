// Recurrent layers.
#include "engine/ops/families.h"
#include "engine/ops/nn/rnn_cells.h"
#include "engine/ops/wide.h"
#include "kernels/gemm/gemm.h"

namespace sluice::engine {
namespace {

enum class LayerKind { rnn, gru, lstm };

std::int64_t gates_of(LayerKind kind) {
  return kind == LayerKind::rnn ? 1 : kind == LayerKind::gru ? 3 : 4;
}

// The inputs: X, W, R, B, sequence_lens, initial_h, and of LSTM initial_c and P.
struct Layer {
  LayerKind kind;
  bool batch_first, reversed = false;
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1, gates = 1;
  Tensor x{}, w{}, r{}, b{}, h{}, c{}, p{};
  std::vector<std::int64_t> lengths{};  // of each sequence; empty: all time steps

  // The input row of a sequence at a time step.
  std::int64_t row(std::int64_t step, std::int64_t sequence) const {
    return batch_first ? sequence * steps + step : step * batch + sequence;
  }
  // The row of a sequence's state within one direction.
  std::int64_t state(std::int64_t direction, std::int64_t sequence) const {
    return batch_first ? sequence * directions + direction : direction * batch + sequence;
  }
  std::int64_t output(std::int64_t step, std::int64_t direction, std::int64_t sequence) const {
    return batch_first ? (sequence * steps + step) * directions + direction
                       : (step * directions + direction) * batch + sequence;
  }
  Shape state_shape() const {
    return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  }
  Shape output_shape() const {
    return batch_first ? Shape{batch, steps, directions, hidden}
                       : Shape{steps, directions, batch, hidden};
  }
};

void check(const Tensor& tensor, const Shape& shape, DType type, std::string_view name) {
  require(!tensor || (tensor.shape() == shape && tensor.dtype() == type),
          std::string(name) + " of " + to_string(tensor.shape()) + ", not " + to_string(shape));
}

void check_shapes(const Layer& l) {
  const DType type = l.x.dtype();
  const std::int64_t rows = l.gates * l.hidden;
  check(l.w, Shape{l.directions, rows, l.input}, type, "W");
  check(l.r, Shape{l.directions, rows, l.hidden}, type, "R");
  check(l.b, Shape{l.directions, 2 * rows}, type, "B");
  check(l.h, l.state_shape(), type, "initial_h");
  check(l.c, l.state_shape(), type, "initial_c");
  check(l.p, Shape{l.directions, 3 * l.hidden}, type, "P");
  for (const std::int64_t length : l.lengths)
    require(length >= 0 && length <= l.steps, "a length of " + std::to_string(length));
}

Layer read_layer(OpCall& call, LayerKind kind) {
  Layer l{.kind = kind, .batch_first = call.attributes().integer("layout", 0) != 0};
  l.x = widened(call.input(0));
  l.w = widened(call.input(1));
  l.r = widened(call.input(2));
  l.b = widened(call.input_or_none(3));
  l.h = widened(call.input_or_none(5));
  if (kind == LayerKind::lstm) {
    l.c = widened(call.input_or_none(6));
    l.p = widened(call.input_or_none(7));
  }
  require(l.x.rank() == 3 && l.r.rank() == 3, "X and R have three axes");
  l.steps = l.x.shape()[l.batch_first ? 1 : 0];
  l.batch = l.x.shape()[l.batch_first ? 0 : 1];
  l.input = l.x.shape()[2];
  l.hidden = l.r.shape()[2];
  require(call.attributes().integer("hidden_size", l.hidden) == l.hidden,
          "hidden_size is not that of R");
  const std::string direction = call.attributes().string("direction", "forward");
  require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
          "direction '" + direction + "' is not known");
  l.reversed = direction == "reverse";
  l.directions = direction == "bidirectional" ? 2 : 1;
  l.gates = gates_of(kind);
  if (call.has(4)) {
    l.lengths = call.integers(4);
    require(
        static_cast<std::int64_t>(l.lengths.size()) == l.batch,
        std::to_string(l.lengths.size()) + " lengths of " + std::to_string(l.batch) + " sequences");
  }
  check_shapes(l);
  return l;
}

template <class T>
std::vector<T> zeros(std::int64_t count) {
  return std::vector<T>(static_cast<std::size_t>(count));
}

// Transposes [rows, columns].
template <class T>
std::vector<T> transposed(const T* from, std::int64_t rows, std::int64_t columns) {
  std::vector<T> to = zeros<T>(rows * columns);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      to[static_cast<std::size_t>(j * rows + i)] = from[i * columns + j];
  return to;
}

// One direction of a layer.
template <class T>
class Walk {
 public:
  Walk(OpCall& call, const Layer& layer, std::int64_t direction, Cell<T> cell, bool late_reset)
      : call_(call),
        l_(layer),
        d_(direction),
        cell_(cell),
        late_reset_(late_reset),
        wide_(layer.gates * layer.hidden),
        reservation_(kDTypeOf<T>, Shape{layer.steps + 6, layer.batch, wide_}),
        r_(transposed(as<T>(layer.r).data() + direction * wide_ * layer.hidden, wide_,
                      layer.hidden)),
        h_(zeros<T>(layer.batch * layer.hidden)),
        c_(h_),
        kept_(h_),
        gates_(zeros<T>(layer.batch * 2 * layer.hidden)),
        recurrent_(zeros<T>(layer.batch * wide_)) {
    start(layer.h, h_);
    start(layer.c, c_);
    if (layer.p) cell_.peepholes = as<T>(layer.p).data() + direction * 3 * layer.hidden;
    project();
  }

  void run(const Tensor& y, const Tensor& last_h, const Tensor& last_c) {
    for (std::int64_t step = 0; step < l_.steps; ++step) {
      multiply_state(h_.data(), 0, wide_, recurrent_.data());
      if (l_.kind == LayerKind::gru) prepare_gru(step);
      for (std::int64_t s = 0; s < l_.batch; ++s) {
        if (step >= length(s)) continue;
        advance(time(step, s), s);
        std::copy_n(h_.data() + s * l_.hidden, l_.hidden,
                    as<T>(y).data() + l_.output(time(step, s), d_, s) * l_.hidden);
      }
    }
    finish(h_, last_h);
    if (last_c) finish(c_, last_c);
  }

 private:
  std::int64_t length(std::int64_t s) const {
    return l_.lengths.empty() ? l_.steps : l_.lengths[static_cast<std::size_t>(s)];
  }
  std::int64_t time(std::int64_t step, std::int64_t s) const {
    return l_.reversed || d_ == 1 ? length(s) - 1 - step : step;
  }
  const T* input(std::int64_t at, std::int64_t s) const {
    return x_.data() + l_.row(at, s) * wide_;
  }

  void start(const Tensor& from, std::vector<T>& to) const {
    for (std::int64_t s = 0; from && s < l_.batch; ++s)
      std::copy_n(as<T>(from).data() + l_.state(d_, s) * l_.hidden, l_.hidden,
                  to.data() + s * l_.hidden);
  }
  void finish(const std::vector<T>& from, const Tensor& to) const {
    for (std::int64_t s = 0; s < l_.batch; ++s)
      std::copy_n(from.data() + s * l_.hidden, l_.hidden,
                  as<T>(to).data() + l_.state(d_, s) * l_.hidden);
  }

  // The input part of all gates at all time steps, with the biases that are added before the reset.
  void project() {
    const std::int64_t rows = l_.steps * l_.batch;
    const std::vector<T> w =
        transposed(as<T>(l_.w).data() + d_ * wide_ * l_.input, wide_, l_.input);
    x_ = zeros<T>(rows * wide_);
    kernels::matmul<T>(call_.workers, rows, wide_, l_.input, {as<T>(l_.x).data(), l_.input, 1},
                       {w.data(), wide_, 1}, x_.data(), wide_);
    late_bias_ = zeros<T>(l_.hidden);
    if (late_reset_) cell_.late_bias = late_bias_.data();
    if (!l_.b) return;
    const T *const of_w = as<T>(l_.b).data() + d_ * 2 * wide_, *const of_r = of_w + wide_;
    if (late_reset_) std::copy_n(of_r + 2 * l_.hidden, l_.hidden, late_bias_.data());
    const std::int64_t early = late_reset_ ? 2 * l_.hidden : wide_;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < wide_; ++i)
        x_[static_cast<std::size_t>(row * wide_ + i)] += of_w[i] + (i < early ? of_r[i] : T(0));
  }

  // Multiplies rows of `from` by gates [first, first + count) of R.
  void multiply_state(const T* from, std::int64_t first, std::int64_t count, T* to) {
    kernels::matmul<T>(call_.workers, l_.batch, count, l_.hidden, {from, l_.hidden, 1},
                       {r_.data() + first, wide_, 1}, to + first, wide_);
  }

  void prepare_gru(std::int64_t step) {
    for (std::int64_t s = 0; s < l_.batch; ++s)
      if (step < length(s))
        cell_.gru_gates(input(time(step, s), s), recurrent_.data() + s * wide_,
                        h_.data() + s * l_.hidden, gates_.data() + s * 2 * l_.hidden,
                        kept_.data() + s * l_.hidden);
    if (!late_reset_) multiply_state(kept_.data(), 2 * l_.hidden, l_.hidden, recurrent_.data());
  }

  void advance(std::int64_t at, std::int64_t s) {
    const T *const x = input(at, s), *const r = recurrent_.data() + s * wide_;
    T* const h = h_.data() + s * l_.hidden;
    switch (l_.kind) {
      case LayerKind::rnn: return cell_.rnn(x, r, h);
      case LayerKind::lstm: return cell_.lstm(x, r, h, c_.data() + s * l_.hidden);
      case LayerKind::gru:
        return cell_.gru_state(x, r + 2 * l_.hidden, gates_.data() + s * 2 * l_.hidden, h);
    }
  }

  OpCall& call_;
  const Layer& l_;
  std::int64_t d_;
  Cell<T> cell_;
  bool late_reset_;
  std::int64_t wide_;
  Tensor reservation_;  // accounts for the memory of the members below
  std::vector<T> r_, h_, c_, kept_, gates_, recurrent_, x_, late_bias_;
};

std::vector<std::string> default_activations(LayerKind kind) {
  if (kind == LayerKind::rnn) return {"Tanh"};
  if (kind == LayerKind::gru) return {"Sigmoid", "Tanh"};
  return {"Sigmoid", "Tanh", "Tanh"};
}

template <LayerKind kKind>
void recurrent(OpCall& call) {
  const DType type = call.input(0).dtype();
  const Layer layer = read_layer(call, kKind);
  const std::vector<std::string> defaults = default_activations(kKind);
  const std::vector<CellActivation> activations =
      read_activations(call.attributes(), defaults, static_cast<std::size_t>(layer.directions));
  const bool late_reset =
      kKind == LayerKind::gru && call.attributes().integer("linear_before_reset", 0) != 0;
  const DType wide = layer.x.dtype();
  call.declare_output(0, type, layer.output_shape());
  call.declare_output(1, type, layer.state_shape());
  if (kKind == LayerKind::lstm) call.declare_output(2, type, layer.state_shape());
  const Tensor y(wide, layer.output_shape()), h(wide, layer.state_shape());
  const Tensor c = kKind == LayerKind::lstm ? Tensor(wide, layer.state_shape()) : Tensor();
  visit_wide(wide, [&]<class T>() {
    std::fill(as<T>(y).begin(), as<T>(y).end(), T(0));
    for (std::int64_t d = 0; d < layer.directions; ++d) {
      Cell<T> cell{.hidden = layer.hidden};
      std::copy_n(activations.begin() + d * static_cast<std::int64_t>(defaults.size()),
                  defaults.size(), cell.f.begin());
      cell.clip = static_cast<T>(call.attributes().real("clip", 0));
      cell.coupled = call.attributes().integer("input_forget", 0) != 0;
      Walk<T>(call, layer, d, cell, late_reset).run(y, h, c);
    }
  });
  call.set_output(0, narrowed(y, type));
  call.set_output(1, narrowed(h, type));
  if (c) call.set_output(2, narrowed(c, type));
}

constexpr Op kRecurrentOps[] = {
    {"RNN", 1, kReals, recurrent<LayerKind::rnn>},
    {"GRU", 1, kReals, recurrent<LayerKind::gru>},
    {"LSTM", 1, kReals, recurrent<LayerKind::lstm>},
};

}  // namespace

std::span<const Op> recurrent_ops() { return kRecurrentOps; }

}  // namespace sluice::engine
