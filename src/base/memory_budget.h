// A limit on memory that many callers share: each reserves what it is about to hold, and the
// reservation fails when it does not fit. Memory is counted as reserved, not measured.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace sluice {

// Others hold the memory that a request needs; the same call may succeed later. To HTTP this
// is 503, and not the caller's 429: pass it on as it is (std::exception_ptr), not as an Error.
class BudgetExhausted : public Error {
 public:
  explicit BudgetExhausted(const std::string& message,
                           SourceLocation where = SourceLocation::here())
      : Error(Code::exhausted, message, where) {}
};

// Thread-safe. Must outlive its charges.
class MemoryBudget {
 public:
  // With a `parent`, this is the share of one client: what is taken here is taken there too.
  explicit MemoryBudget(std::uint64_t limit, MemoryBudget* parent = nullptr) noexcept
      : limit_(limit), parent_(parent) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // A reservation; its destructor returns the bytes. Used by one thread at a time.
  class Charge {
   public:
    Charge() = default;  // of no budget: resize() always works
    explicit Charge(MemoryBudget& of) noexcept : budget_(&of) {}
    ~Charge() { release(); }
    Charge(Charge&& other) noexcept
        : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
    Charge& operator=(Charge&& other) noexcept {
      if (this == &other) return *this;
      release();
      budget_ = other.budget_;
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }

    // Holds this many from now on. False, and nothing changes, when that is more than before
    // and does not fit.
    [[nodiscard]] bool resize(std::uint64_t bytes) noexcept;
    // The same, but throws instead: BudgetExhausted, whose message says whether this budget or
    // its parent is full, or invalid_argument for more than the limit. `what` begins the message.
    void hold(std::uint64_t bytes, std::string_view what = "this needs");
    void release() noexcept;
    std::uint64_t bytes() const noexcept { return bytes_; }

   private:
    MemoryBudget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
  };

  Charge charge(std::uint64_t bytes);  // throws as Charge::hold does

  std::uint64_t limit() const noexcept { return limit_; }
  std::uint64_t used() const noexcept { return used_; }
  std::uint64_t refused() const noexcept { return refused_; }  // count, with those of its children

  // Returns true once kTrimAfterBytes were given back since it last did: the allocator should
  // return its free pages to the system (malloc_trim). For one caller.
  static constexpr std::uint64_t kTrimAfterBytes = 16 << 20;
  bool should_trim() noexcept {
    return returned_ >= kTrimAfterBytes && returned_.exchange(0) >= kTrimAfterBytes;
  }

 private:
  bool take(std::uint64_t bytes) noexcept;
  [[noreturn]] void refuse(std::uint64_t bytes, std::uint64_t more, std::string_view what) const;
  void give(std::uint64_t bytes) noexcept;

  const std::uint64_t limit_;
  MemoryBudget* const parent_;
  std::atomic<std::uint64_t> used_{0}, returned_{0}, refused_{0};
};

}  // namespace sluice
