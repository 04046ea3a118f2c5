// An operation and one call of it: input arrays, output arrays, and a function for
// each kind of device. Compute does the rest for all operations: the choice of device, copies,
// splitting, and the fallback to the CPU.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sluice::compute {

class Workers;
class LaunchContext;

enum class Side { host, device };  // where an array lies

// One array of a call: `item_bytes` for each item, stored contiguously; or, when that is 0,
// `shared_bytes` that every item may read.
struct Operand {
  void* data = nullptr;
  std::size_t item_bytes = 0;
  std::size_t shared_bytes = 0;
  Side side = Side::host;

  std::size_t bytes(std::size_t items) const { return item_bytes * items + shared_bytes; }
};

// Items are what a call can be split into: series, options, blocks of paths, sets of
// parameters. An item's result must not depend on which others share the call.
struct Call {
  std::vector<Operand> in{}, out{};
  const void* parameters = nullptr;  // a trivially copyable struct of the operation's
  std::size_t parameters_bytes = 0;
  std::size_t items = 0;
  std::size_t first = 0;  // number of the first item in the whole call: for random streams
  double work = 1;        // of one item, in the operation's own unit (bars, path-steps)

  template <class P>
  const P& with() const {
    static_assert(std::is_trivially_copyable_v<P>);
    return *static_cast<const P*>(parameters);
  }
  template <class T>
  const T* input(std::size_t i) const {
    return static_cast<const T*>(in[i].data);
  }
  template <class T>
  T* output(std::size_t i) const {
    return static_cast<T*>(out[i].data);
  }
};

// Both functions give the same result within the operation's stated tolerance, and each
// the same bits every time. `gpu` finds every array on the device and only queues work;
// it is null in a build without CUDA.
struct Operation {
  std::string_view name;  // also its name in the file of measured costs
  void (*cpu)(const Call&, Workers&);
  void (*gpu)(const Call&, LaunchContext&);
};

// The items [begin, end) of `call`.
Call slice(const Call& call, std::size_t begin, std::size_t end);

// Bytes to copy to and from a GPU.
struct Traffic {
  std::size_t in = 0, out = 0;
};
Traffic traffic(const Call& call);

}  // namespace sluice::compute
