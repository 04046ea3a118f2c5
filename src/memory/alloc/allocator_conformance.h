// The Allocator contract as a test suite. A new allocator adds one fixture with
// `Allocator& allocator()`, of at least 16 MiB, and one INSTANTIATE line. The fixture
// says in kTouchable whether the host may write to its memory.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/error.h"
#include "memory/alloc/allocator.h"

namespace sluice::memory {

template <class Fixture>
class AllocatorConformance : public Fixture {};
TYPED_TEST_SUITE_P(AllocatorConformance);

TYPED_TEST_P(AllocatorConformance, ZeroBytesIsAValidRequest) {
  const Buffer a(this->allocator(), 0), b(this->allocator(), 0);
  EXPECT_NE(a.data(), nullptr);
  EXPECT_NE(a.data(), b.data());
}

TYPED_TEST_P(AllocatorConformance, BlocksAreAligned) {
  std::vector<Buffer> blocks;
  for (std::size_t bytes = 1; bytes < 100'000; bytes = bytes * 3 + 1) {
    blocks.emplace_back(this->allocator(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().data()) % kAlignment, 0u) << bytes;
  }
}

TYPED_TEST_P(AllocatorConformance, FreedMemoryCanBeRequestedAgain) {
  for (int i = 0; i < 10'000; ++i)
    ASSERT_NO_THROW(const Buffer block(this->allocator(), 1 << 20)) << "after " << i << " MiB";
}

TYPED_TEST_P(AllocatorConformance, AnAbsurdRequestIsRefusedAndChangesNothing) {
  const Buffer before(this->allocator(), 1000);
  for (const std::size_t bytes :
       {static_cast<std::size_t>(-1), static_cast<std::size_t>(-1) / 2, std::size_t{1} << 50}) {
    try {
      (void)this->allocator().allocate(bytes);
      FAIL() << bytes << " bytes were given";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::exhausted) << e.what();
    }
  }
  const Buffer after(this->allocator(), 1000);
}

TYPED_TEST_P(AllocatorConformance, BlocksOutNeverShareAByte) {
  std::mt19937 random(1);
  std::vector<Buffer> blocks(64);
  std::vector<unsigned char> marks(blocks.size());
  for (int i = 0; i < 4000; ++i) {
    const std::size_t at = random() % blocks.size();
    if (TypeParam::kTouchable && blocks[at].data() != nullptr) {
      const auto* bytes = static_cast<const unsigned char*>(blocks[at].data());
      for (std::size_t n = 0; n < blocks[at].bytes(); n += 97) ASSERT_EQ(bytes[n], marks[at]);
    }
    blocks[at].reset();
    blocks[at] = Buffer(this->allocator(), random() % 20'000);
    marks[at] = static_cast<unsigned char>(random());
    if (TypeParam::kTouchable) std::memset(blocks[at].data(), marks[at], blocks[at].bytes());
  }
}

TYPED_TEST_P(AllocatorConformance, TrimmingLeavesBlocksAlone) {
  std::vector<Buffer> blocks;
  for (int i = 0; i < 16; ++i) blocks.emplace_back(this->allocator(), 100'000);
  for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i].reset();
  if (TypeParam::kTouchable) std::memset(blocks[1].data(), 42, blocks[1].bytes());
  this->allocator().trim();
  if (TypeParam::kTouchable) {
    EXPECT_EQ(static_cast<const char*>(blocks[1].data())[99'999], 42);
  }
  const Buffer again(this->allocator(), 1 << 20);
}

REGISTER_TYPED_TEST_SUITE_P(AllocatorConformance, ZeroBytesIsAValidRequest, BlocksAreAligned,
                            FreedMemoryCanBeRequestedAgain,
                            AnAbsurdRequestIsRefusedAndChangesNothing, BlocksOutNeverShareAByte,
                            TrimmingLeavesBlocksAlone);

}  // namespace sluice::memory
