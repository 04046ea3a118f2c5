// A limit on memory that many may take from: each says what it is about to hold, and is told
// when there is no room for it. Counted, not measured: it is as good as what is said.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace sluice {

// Others hold the memory that a request needs; the same call works in a moment. To HTTP this
// is 503, and not the caller's 429: pass it on as it is (std::exception_ptr), not as an Error.
class NoRoom : public Error {
 public:
  explicit NoRoom(const std::string& message, Where where = Where::here())
      : Error(Code::exhausted, message, where) {}
};

// Thread-safe. Must outlive its charges.
class MemoryBudget {
 public:
  // A part of `whole`, for one client, when there is one: what is taken here is taken there too.
  explicit MemoryBudget(std::uint64_t limit, MemoryBudget* whole = nullptr) noexcept
      : limit_(limit), whole_(whole) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // What somebody holds; given back when it ends. Used by one thread at a time.
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
    // and there is no room.
    [[nodiscard]] bool resize(std::uint64_t bytes) noexcept;
    // The same, but throws where that says no: NoRoom, which tells whether the part or the whole
    // is full, or invalid_argument where so much can never be had. `what` begins the message.
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
  std::uint64_t refused() const noexcept { return refused_; }  // how often, by parts too

  // Whether so much was given back since this was last true that it is worth telling the
  // allocator to return its free pages to the system. For one caller.
  static constexpr std::uint64_t kMuch = 16 << 20;
  bool has_returned_much() noexcept { return returned_ >= kMuch && returned_.exchange(0) >= kMuch; }

 private:
  bool take(std::uint64_t bytes) noexcept;
  [[noreturn]] void refuse(std::uint64_t bytes, std::uint64_t more, std::string_view what) const;
  void give(std::uint64_t bytes) noexcept;

  const std::uint64_t limit_;
  MemoryBudget* const whole_;
  std::atomic<std::uint64_t> used_{0}, returned_{0}, refused_{0};
};

}  // namespace sluice
