// RNN, GRU and LSTM: one warp for each hidden unit of each sequence computes the dot products with
// the unit's weights; lane 0 keeps the cell state. States are f32 for all element types.
#include "kernels/data_movement/element_width.cuh"
#include "kernels/rnn/rnn.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 8;

__device__ float activated(const RnnActivation& f, float x) {
  switch (f.kind) {
    case 0: return x > 0 || x != x ? x : 0;
    case 1: return tanhf(x);
    case 2: return 1 / (1 + expf(-x));
    case 3: return fmaf(f.alpha, x, f.beta);
    case 4: return x < 0 ? f.alpha * x : x;
    case 5: return x > f.alpha ? x : 0;
    case 6: return f.alpha * tanhf(f.beta * x);
    case 7: return fminf(fmaxf(fmaf(f.alpha, x, f.beta), 0.0f), 1.0f);
    case 8: return x < 0 ? f.alpha * expm1f(x) : x;
    case 9: return x / (1 + fabsf(x));
    default: return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
  }
}

// A hidden unit of one sequence and direction at one time step.
template <class T>
struct HiddenUnit {
  const RnnCall& call;
  std::int64_t direction, sequence, unit, time, state;  // state: its index in the scratch
  bool is_finished;  // the step is behind the end of the sequence
  int lane;

  __device__ HiddenUnit(const RnnCall& of, std::int64_t step) : call(of) {
    const std::int64_t id =
        static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    state = id;
    unit = id % call.hidden;
    sequence = id / call.hidden % call.batch;
    direction = id / call.hidden / call.batch;
    if (!is_valid()) return;
    std::int64_t length = call.steps;
    if (call.lengths != nullptr)
      length = length_at(call.lengths, call.long_lengths, sequence, call.steps, call.error);
    is_finished = step >= length;
    const bool backward = call.reversed || direction == 1;
    time = backward && !is_finished ? length - 1 - step : step;
  }
  __device__ bool is_valid() const { return direction < call.directions; }

  // The dot product of the unit's row of `gate`, of weights [directions, gates * hidden, n], and a
  // vector.
  template <class V>
  __device__ float dot(const void* weights, int gates, int gate, const V* vector,
                       std::int64_t n) const {
    const T* const row =
        static_cast<const T*>(weights) + ((direction * gates + gate) * call.hidden + unit) * n;
    float sum = 0;
    for (std::int64_t i = lane; i < n; i += 32) sum = fmaf(wide(row[i]), wide(vector[i]), sum);
    return warp_sum(sum);
  }
  __device__ float input_dot(int gates, int gate) const {
    const std::int64_t row =
        call.batch_first ? sequence * call.steps + time : time * call.batch + sequence;
    return dot(call.w, gates, gate, static_cast<const T*>(call.x) + row * call.input, call.input);
  }
  // The states of all units of the sequence.
  __device__ const float* states(const float* of) const { return of + state - unit; }
  __device__ float hidden_dot(int gates, int gate, const float* of) const {
    return dot(call.r, gates, gate, states(of), call.hidden);
  }
  // `second`: the recurrence bias (Rb), otherwise the input bias (Wb).
  __device__ float bias(int gates, int gate, bool second) const {
    if (call.b == nullptr) return 0;
    return wide(static_cast<const T*>(
        call.b)[((direction * 2 + (second ? 1 : 0)) * gates + gate) * call.hidden + unit]);
  }
  __device__ float biases(int gates, int gate) const {
    return bias(gates, gate, false) + bias(gates, gate, true);
  }
  __device__ float clipped(float x) const {
    return call.clip > 0 ? fminf(fmaxf(x, -call.clip), call.clip) : x;
  }
  __device__ float activate(int index, float x) const {
    return activated(call.f[direction][index], clipped(x));
  }
  __device__ void write_output(float h) const {
    if (call.y == nullptr || lane != 0) return;
    const std::int64_t row = call.batch_first
                                 ? (sequence * call.steps + time) * call.directions + direction
                                 : (time * call.directions + direction) * call.batch + sequence;
    static_cast<T*>(call.y)[row * call.hidden + unit] = narrow<T>(h);
  }
};

template <class T>
__device__ float lstm(const HiddenUnit<T>& u, const float* h) {
  const RnnCall& call = u.call;
  float gate[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) gate[i] = u.input_dot(4, i) + u.hidden_dot(4, i, h) + u.biases(4, i);
  const float cell = call.c[u.state];
  const auto peephole = [&](int index, float c) {
    if (call.peepholes == nullptr) return 0.0f;
    return c * wide(static_cast<const T*>(
                   call.peepholes)[(u.direction * 3 + index) * call.hidden + u.unit]);
  };
  const float in = u.activate(0, gate[0] + peephole(0, cell));
  const float forget = call.coupled ? 1 - in : u.activate(0, gate[2] + peephole(2, cell));
  const float next = forget * cell + in * u.activate(1, gate[3]);
  const float out = u.activate(0, gate[1] + peephole(1, next));
  if (u.lane == 0) call.c[u.state] = next;
  return out * u.activate(2, next);
}

template <class T>
__device__ float gru(const HiddenUnit<T>& u, const float* h) {
  const RnnCall& call = u.call;
  const float reset = call.reset[u.state], update = call.update[u.state];
  float hidden_part;
  if (call.late_reset) {
    hidden_part = reset * (u.hidden_dot(3, 2, h) + u.bias(3, 2, true));
  } else {  // `reset` is the state times the reset gate already
    hidden_part = u.hidden_dot(3, 2, call.reset) + u.bias(3, 2, true);
  }
  const float candidate = u.activate(1, u.input_dot(3, 2) + u.bias(3, 2, false) + hidden_part);
  return (1 - update) * candidate + update * h[u.state];
}

// The update and reset gates of GRU. Without linear_before_reset, `reset` becomes the state times
// the gate.
template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    gru_gates(const RnnCall call, std::int64_t step, int current) {
  const HiddenUnit<T> u(call, step);
  if (!u.is_valid() || u.is_finished) return;
  const float* const h = call.h[current];
  float gate[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    gate[i] = u.activate(0, u.input_dot(3, i) + u.hidden_dot(3, i, h) + u.biases(3, i));
  if (u.lane != 0) return;
  call.update[u.state] = gate[0];
  call.reset[u.state] = call.late_reset ? gate[1] : gate[1] * h[u.state];
}

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    rnn_lstm_gru_step(const RnnCall call, std::int64_t step, int current) {
  const HiddenUnit<T> u(call, step);
  if (!u.is_valid()) return;
  const float* const h = call.h[current];
  float next = 0;
  if (u.is_finished) {
    if (u.lane == 0) call.h[1 - current][u.state] = h[u.state];
    return u.write_output(0);
  }
  if (call.kind == RnnCall::Kind::lstm)
    next = lstm(u, h);
  else if (call.kind == RnnCall::Kind::gru)
    next = gru(u, h);
  else
    next = u.activate(0, u.input_dot(1, 0) + u.hidden_dot(1, 0, h) + u.biases(1, 0));
  if (u.lane == 0) call.h[1 - current][u.state] = next;
  u.write_output(next);
}

// Copies initial states to the scratch, [directions, batch, hidden], or final states from it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    copy_rnn_state(const RnnCall call, const void* from, void* to, float* scratch) {
  const std::int64_t i = thread_index();
  if (i >= call.directions * call.batch * call.hidden) return;
  const std::int64_t unit = i % call.hidden, sequence = i / call.hidden % call.batch,
                     direction = i / call.hidden / call.batch;
  const std::int64_t row =
      call.batch_first ? sequence * call.directions + direction : direction * call.batch + sequence;
  const std::int64_t index = row * call.hidden + unit;
  if (to != nullptr)
    static_cast<T*>(to)[index] = narrow<T>(scratch[i]);
  else
    scratch[i] = from != nullptr ? wide(static_cast<const T*>(from)[index]) : 0;
}

template <class T>
void run(const RnnCall& call, const LaunchArgs& args) {
  const std::int64_t units = call.directions * call.batch * call.hidden;
  const Grid grid{dim3(static_cast<unsigned>((units + kWarps - 1) / kWarps)), dim3(kWarps * 32)};
  const auto copy_state = [&](const void* from, void* to, float* scratch) {
    launch(stream_of(args), grid_for(units), copy_rnn_state<T>, call, from, to, scratch);
  };
  copy_state(call.first_h, nullptr, call.h[0]);
  if (call.kind == RnnCall::Kind::lstm) copy_state(call.first_c, nullptr, call.c);
  for (std::int64_t step = 0; step < call.steps; ++step) {
    const int current = static_cast<int>(step % 2);
    if (call.kind == RnnCall::Kind::gru)
      launch(stream_of(args), grid, gru_gates<T>, call, step, current);
    launch(stream_of(args), grid, rnn_lstm_gru_step<T>, call, step, current);
  }
  if (call.last_h != nullptr) copy_state(nullptr, call.last_h, call.h[call.steps % 2]);
  if (call.last_c != nullptr) copy_state(nullptr, call.last_c, call.c);
}

}  // namespace

void run_rnn(RealType type, RnnCall call, float* scratch, const LaunchArgs& args) {
  const std::int64_t units = call.directions * call.batch * call.hidden;
  call.h[0] = scratch;
  call.h[1] = scratch + units;
  call.c = scratch + 2 * units;
  call.update = scratch + 3 * units;
  call.reset = scratch + 4 * units;
  if (type == RealType::f32) return run<float>(call, args);
  if (type == RealType::f16) return run<__half>(call, args);
  run<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda
