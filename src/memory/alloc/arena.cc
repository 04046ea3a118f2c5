#include "memory/alloc/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/error.h"
#include "base/units.h"
#include "memory/alloc/allocator.h"

namespace sluice::memory {
namespace {

// A mapping without swap space set aside: most of it never gets memory.
constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::size_t checked_granule(std::size_t granule) {
  require(std::has_single_bit(granule) && granule >= kAlignment,
          "an arena's granule must be a power of two of at least 256 bytes");
  return granule;
}

}  // namespace

HostArena::HostArena(std::size_t addresses, std::size_t granule)
    : granule_(std::max(checked_granule(granule), static_cast<std::size_t>(::getpagesize()))) {
  addresses_ = round_up(addresses, granule_);
  void* const base = ::mmap(nullptr, addresses_, PROT_NONE, kFlags, -1, 0);
  if (base == MAP_FAILED)
    throw Error(Code::exhausted, "cannot reserve " + human_bytes(addresses_) + " of addresses");
  base_ = static_cast<std::byte*>(base);
}

HostArena::~HostArena() { ::munmap(base_, addresses_); }

void HostArena::commit(std::size_t offset, std::size_t bytes) {
  if (::mprotect(base_ + offset, bytes, PROT_READ | PROT_WRITE) != 0)
    throw Error(Code::exhausted, "no host memory for " + human_bytes(bytes));
}

void HostArena::decommit(std::size_t offset, std::size_t bytes) noexcept {
  // Mapping anew gives the memory back and ends access in one step. It fails only when
  // the kernel has no space for another mapping; then the memory goes, access stays.
  if (::mmap(base_ + offset, bytes, PROT_NONE, kFlags | MAP_FIXED, -1, 0) == MAP_FAILED)
    ::madvise(base_ + offset, bytes, MADV_DONTNEED);
}

ImaginaryArena::ImaginaryArena(std::size_t addresses, std::size_t memory, std::size_t granule)
    : addresses_(round_up(addresses, checked_granule(granule))),
      memory_(memory),
      granule_(granule) {}

std::byte* ImaginaryArena::base() const noexcept {
  return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 60);  // no program has memory there
}

void ImaginaryArena::commit(std::size_t, std::size_t bytes) {
  if (bytes > memory_ - committed_)
    throw Error(Code::exhausted, "no memory for " + human_bytes(bytes));
  committed_ += bytes;
}

void ImaginaryArena::decommit(std::size_t, std::size_t bytes) noexcept { committed_ -= bytes; }

bool Budget::take(std::size_t bytes) noexcept {
  std::size_t left = left_.load(std::memory_order_relaxed);
  do {
    if (bytes > left) return false;
  } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
  return true;
}

std::size_t BudgetArena::available() const noexcept {
  return std::min(arena_->available(), budget_->left());
}

void BudgetArena::commit(std::size_t offset, std::size_t bytes) {
  if (!budget_->take(bytes))
    throw Error(Code::exhausted, "no memory for " + human_bytes(bytes) + " within the limit");
  try {
    arena_->commit(offset, bytes);
  } catch (...) {
    budget_->give(bytes);
    throw;
  }
}

void BudgetArena::decommit(std::size_t offset, std::size_t bytes) noexcept {
  arena_->decommit(offset, bytes);
  budget_->give(bytes);
}

}  // namespace sluice::memory
