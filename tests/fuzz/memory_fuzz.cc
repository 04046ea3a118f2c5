// Any bytes as a program of allocations: through each strategy beside an oracle, and
// through a pool whose arena knows which addresses have memory. Nothing may overlap, no
// sum may be off, and no block may lie where there is no memory.
//
// The first byte chooses strategy and form, each following three are one operation. Built
// with clang -fsanitize=fuzzer as memory_fuzz, and by every compiler as a short run
// (memory_fuzz_smoke.cc).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/pool/pool.h"
#include "memory/strategy/oracle_for_tests.h"

namespace {

using namespace sluice;
using namespace sluice::memory;

constexpr std::size_t kGranule = 4 << 10;

void demand(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "memory_fuzz: %s\n", what.c_str());
  std::abort();
}

struct Operation {
  unsigned what, which;
  std::size_t bytes;  // spread over 0 .. 4 MiB, small ones more often
};

Operation operation(const std::uint8_t* at) {
  const std::size_t bits = at[1] % 23;
  return {at[0], at[2], (std::size_t{1} << bits) + at[2] * (std::size_t{1} << bits) / 256 - 1};
}

void run_strategy(StrategyKind kind, const std::uint8_t* data, std::size_t size) {
  Oracle oracle(kind, kGranule);
  std::vector<Offset> out;
  for (; size >= 3; data += 3, size -= 3) {
    const Operation op = operation(data);
    const std::size_t pick = out.empty() ? 0 : op.which % out.size();
    switch (op.what % 8) {
      case 0: oracle.extend_for(op.bytes); break;
      case 1: oracle.withdraw(op.which); break;
      case 2:
        if (!oracle.withdrawn().empty()) {
          auto at = oracle.withdrawn().begin();
          std::advance(at, op.which % oracle.withdrawn().size());
          oracle.restore(at->first);
        }
        break;
      case 3:
      case 4:
        if (out.empty()) break;
        oracle.free(out[pick]);
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(pick));
        break;
      default:
        if (const auto offset = oracle.allocate(op.bytes, op.what % 8 == 5)) out.push_back(*offset);
    }
    if (op.what >= 250) oracle.check();
    demand(oracle.wrong().empty(), oracle.wrong());
  }
  oracle.check();
  demand(oracle.wrong().empty(), oracle.wrong());
}

class CheckedArena final : public Arena {
 public:
  std::byte* base() const noexcept override {
    return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44);
  }
  std::size_t addresses() const noexcept override { return has_.size() * kGranule; }
  std::size_t granule() const noexcept override { return kGranule; }
  void commit(std::size_t offset, std::size_t bytes) override {
    if (committed_ + bytes > kMemory) throw Error(Code::exhausted, "full");
    change(offset, bytes, true);
    committed_ += bytes;
  }
  void decommit(std::size_t offset, std::size_t bytes) noexcept override {
    change(offset, bytes, false);
    committed_ -= bytes;
  }
  std::size_t committed() const { return committed_; }
  void demand_memory(const Buffer& block) const {
    const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(block.data()) - base());
    for (std::size_t i = begin / kGranule; i * kGranule < begin + block.bytes(); ++i)
      demand(has_[i], "a block without memory");
  }

 private:
  static constexpr std::size_t kMemory = 5 << 20;
  void change(std::size_t offset, std::size_t bytes, bool to) {
    demand(offset % kGranule == 0 && bytes % kGranule == 0, "not whole granules");
    for (std::size_t i = offset / kGranule; i < (offset + bytes) / kGranule; ++i) {
      demand(has_[i] != to, "memory put or taken twice");
      has_[i] = to;
    }
  }
  std::vector<bool> has_ = std::vector<bool>((64 << 20) / kGranule);
  std::size_t committed_ = 0;
};

void run_pool(StrategyKind kind, const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kCeiling = 4 << 20;
  CheckedArena arena;
  Pool pool("fuzz", arena, {.strategy = kind, .growth = 64 << 10, .ceiling = kCeiling});
  std::vector<Buffer> out;
  std::size_t used = 0;
  for (; size >= 3; data += 3, size -= 3) {
    const Operation op = operation(data);
    if (op.what % 8 == 0) {
      pool.trim();
    } else if (op.what % 8 < 4 && !out.empty()) {
      std::swap(out[op.which % out.size()], out.back());
      used -= out.back().bytes();
      out.pop_back();
    } else {
      try {
        out.emplace_back(pool, op.bytes);
        used += op.bytes;
      } catch (const Error& e) {
        demand(e.code() == Code::exhausted, e.what());
      }
    }
    demand(arena.committed() <= kCeiling, "past the ceiling");
    for (const Buffer& block : out) arena.demand_memory(block);
  }
  const PoolStatistics s = pool.statistics();
  demand(s.used == used && s.count == out.size() && s.committed == arena.committed(), "sums");
  if (s.grantable > 0) const Buffer granted(pool, s.grantable);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const StrategyKind kind = kStrategyKinds[data[0] % 4];
  if (data[0] % 8 < 4)
    run_strategy(kind, data + 1, size - 1);
  else
    run_pool(kind, data + 1, size - 1);
  return 0;
}
