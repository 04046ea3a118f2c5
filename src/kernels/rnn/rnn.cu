// A warp for each unit of each sequence: it goes along the unit's weights, and its first lane
// has the cell. States are float, whatever the element type.
#include "kernels/data_movement/element_width.cuh"
#include "kernels/rnn/rnn.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 8;

__device__ float squashed(const Squash& f, float x) {
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

// One unit of one sequence at one step, of one direction.
template <class T>
struct Unit {
  const RecurrentCall& call;
  std::int64_t direction, sequence, unit, time, state;  // state: its place in the scratch
  bool over;                                            // the sequence has ended
  int lane;

  __device__ Unit(const RecurrentCall& of, std::int64_t step) : call(of) {
    const std::int64_t id =
        static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    state = id;
    unit = id % call.hidden;
    sequence = id / call.hidden % call.batch;
    direction = id / call.hidden / call.batch;
    if (!there()) return;
    std::int64_t length = call.steps;
    if (call.lengths != nullptr)
      length = length_at(call.lengths, call.long_lengths, sequence, call.steps, call.error);
    over = step >= length;
    const bool backward = call.reversed || direction == 1;
    time = backward && !over ? length - 1 - step : step;
  }
  __device__ bool there() const { return direction < call.directions; }

  // Row `gate` of the unit, of weights [directions, gates * hidden, n], by a vector.
  template <class V>
  __device__ float dot(const void* weights, int gates, int gate, const V* by,
                       std::int64_t n) const {
    const T* const row =
        static_cast<const T*>(weights) + ((direction * gates + gate) * call.hidden + unit) * n;
    float sum = 0;
    for (std::int64_t i = lane; i < n; i += 32) sum = fmaf(wide(row[i]), wide(by[i]), sum);
    return warp_sum(sum);
  }
  __device__ float of_input(int gates, int gate) const {
    const std::int64_t row =
        call.batch_first ? sequence * call.steps + time : time * call.batch + sequence;
    return dot(call.w, gates, gate, static_cast<const T*>(call.x) + row * call.input, call.input);
  }
  // The states of all units of the sequence.
  __device__ const float* states(const float* of) const { return of + state - unit; }
  __device__ float of_state(int gates, int gate, const float* of) const {
    return dot(call.r, gates, gate, states(of), call.hidden);
  }
  // `second`: the bias of the state's product, otherwise of the input's.
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
  __device__ float squash(int which, float x) const {
    return squashed(call.f[direction][which], clipped(x));
  }
  __device__ void give(float h) const {
    if (call.y == nullptr || lane != 0) return;
    const std::int64_t row = call.batch_first
                                 ? (sequence * call.steps + time) * call.directions + direction
                                 : (time * call.directions + direction) * call.batch + sequence;
    static_cast<T*>(call.y)[row * call.hidden + unit] = narrow<T>(h);
  }
};

template <class T>
__device__ float lstm(const Unit<T>& u, const float* h) {
  const RecurrentCall& call = u.call;
  float gate[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) gate[i] = u.of_input(4, i) + u.of_state(4, i, h) + u.biases(4, i);
  const float cell = call.c[u.state];
  const auto peep = [&](int which, float c) {
    if (call.peepholes == nullptr) return 0.0f;
    return c * wide(static_cast<const T*>(
                   call.peepholes)[(u.direction * 3 + which) * call.hidden + u.unit]);
  };
  const float in = u.squash(0, gate[0] + peep(0, cell));
  const float keep = call.coupled ? 1 - in : u.squash(0, gate[2] + peep(2, cell));
  const float now = keep * cell + in * u.squash(1, gate[3]);
  const float out = u.squash(0, gate[1] + peep(1, now));
  if (u.lane == 0) call.c[u.state] = now;
  return out * u.squash(2, now);
}

template <class T>
__device__ float gru(const Unit<T>& u, const float* h) {
  const RecurrentCall& call = u.call;
  const float reset = call.reset[u.state], update = call.update[u.state];
  float part;
  if (call.late_reset) {
    part = reset * (u.of_state(3, 2, h) + u.bias(3, 2, true));
  } else {  // `reset` has been multiplied with the state
    part = u.of_state(3, 2, call.reset) + u.bias(3, 2, true);
  }
  const float made = u.squash(1, u.of_input(3, 2) + u.bias(3, 2, false) + part);
  return (1 - update) * made + update * h[u.state];
}

// Both gates of GRU; `reset` is left as such, or as the state times it.
template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    gates_kernel(const RecurrentCall call, std::int64_t step, int before) {
  const Unit<T> u(call, step);
  if (!u.there() || u.over) return;
  const float* const h = call.h[before];
  float gate[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    gate[i] = u.squash(0, u.of_input(3, i) + u.of_state(3, i, h) + u.biases(3, i));
  if (u.lane != 0) return;
  call.update[u.state] = gate[0];
  call.reset[u.state] = call.late_reset ? gate[1] : gate[1] * h[u.state];
}

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    step_kernel(const RecurrentCall call, std::int64_t step, int before) {
  const Unit<T> u(call, step);
  if (!u.there()) return;
  const float* const h = call.h[before];
  float now = 0;
  if (u.over) {
    if (u.lane == 0) call.h[1 - before][u.state] = h[u.state];
    return u.give(0);
  }
  if (call.kind == RecurrentCall::Kind::lstm)
    now = lstm(u, h);
  else if (call.kind == RecurrentCall::Kind::gru)
    now = gru(u, h);
  else
    now = u.squash(0, u.of_input(1, 0) + u.of_state(1, 0, h) + u.biases(1, 0));
  if (u.lane == 0) call.h[1 - before][u.state] = now;
  u.give(now);
}

// Between the scratch, [directions, batch, hidden], and the states outside.
template <class T>
__global__ void __launch_bounds__(kThreads)
    state_kernel(const RecurrentCall call, const void* from, void* to, float* inside) {
  const std::int64_t i = place();
  if (i >= call.directions * call.batch * call.hidden) return;
  const std::int64_t unit = i % call.hidden, sequence = i / call.hidden % call.batch,
                     direction = i / call.hidden / call.batch;
  const std::int64_t row =
      call.batch_first ? sequence * call.directions + direction : direction * call.batch + sequence;
  const std::int64_t outside = row * call.hidden + unit;
  if (to != nullptr)
    static_cast<T*>(to)[outside] = narrow<T>(inside[i]);
  else
    inside[i] = from != nullptr ? wide(static_cast<const T*>(from)[outside]) : 0;
}

template <class T>
void run(const RecurrentCall& call, const LaunchArgs& args) {
  const std::int64_t units = call.directions * call.batch * call.hidden;
  const Grid grid{dim3(static_cast<unsigned>((units + kWarps - 1) / kWarps)), dim3(kWarps * 32)};
  const auto move = [&](const void* from, void* to, float* inside) {
    launch(stream_of(args), grid_for(units), state_kernel<T>, call, from, to, inside);
  };
  move(call.first_h, nullptr, call.h[0]);
  if (call.kind == RecurrentCall::Kind::lstm) move(call.first_c, nullptr, call.c);
  for (std::int64_t step = 0; step < call.steps; ++step) {
    const int before = static_cast<int>(step % 2);
    if (call.kind == RecurrentCall::Kind::gru)
      launch(stream_of(args), grid, gates_kernel<T>, call, step, before);
    launch(stream_of(args), grid, step_kernel<T>, call, step, before);
  }
  if (call.last_h != nullptr) move(nullptr, call.last_h, call.h[call.steps % 2]);
  if (call.last_c != nullptr) move(nullptr, call.last_c, call.c);
}

}  // namespace

void run_recurrent(RealType type, RecurrentCall call, float* scratch, const LaunchArgs& args) {
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
