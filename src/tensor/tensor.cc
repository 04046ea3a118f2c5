#include "tensor/tensor.h"

#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <vector>

#include "base/error.h"
#include "device/host/cgroup.h"
#include "memory/alloc/adaptors.h"
#include "tensor/byte_size.h"

namespace sluice {
namespace {

class SystemMemory final : public memory::Allocator {
 public:
  void* allocate(std::size_t size) override {
    const std::size_t rounded =
        memory::round_up(std::max<std::size_t>(size, 1), memory::kAlignment);
    if (void* const block = std::aligned_alloc(memory::kAlignment, rounded)) return block;
    throw Error(Code::exhausted, "no memory for a tensor of " + std::to_string(size) + " bytes");
  }
  void deallocate(void* pointer, std::size_t) noexcept override { std::free(pointer); }
};

struct Limited final : memory::Allocator {
  explicit Limited(std::size_t max) : limited(system, max) {}
  void* allocate(std::size_t size) override { return limited.allocate(size); }
  void deallocate(void* pointer, std::size_t size) noexcept override {
    limited.deallocate(pointer, size);
  }

  SystemMemory system;
  memory::LimitedAllocator limited;
};

std::size_t memory_here() {
  const auto machine = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES))) *
                       static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  const std::uint64_t ours = device::read_cgroup().memory.value_or(machine);
  return machine > 0 ? std::min(machine, ours) / 5 * 4 : std::numeric_limits<std::size_t>::max();
}

std::shared_ptr<memory::Allocator>& current_memory() {
  static const auto machine = std::make_shared<Limited>(memory_here());
  thread_local std::shared_ptr<memory::Allocator> current = machine;
  return current;
}

// A block with its allocator, which it keeps alive.
struct Block {
  Block(std::shared_ptr<memory::Allocator> from, std::size_t size)
      : source(std::move(from)), bytes(*source, size) {}

  std::shared_ptr<memory::Allocator> source;
  memory::Buffer bytes;
};

}  // namespace

struct Tensor::Strings {
  explicit Strings(const Shape& shape) {
    reserve(byte_size(shape, sizeof(std::string)));
    values.resize(static_cast<std::size_t>(shape.size()));
  }
  void reserve(std::size_t size) {
    blocks.push_back(std::make_unique<Block>(current_memory(), size));
  }

  std::vector<std::unique_ptr<Block>> blocks;  // account for the contents of strings
  std::vector<std::string> values;
};

TensorMemory::TensorMemory(std::shared_ptr<memory::Allocator> from)
    : before_(std::exchange(current_memory(), std::move(from))) {}

TensorMemory::~TensorMemory() { current_memory() = std::move(before_); }

std::shared_ptr<memory::Allocator> limited_memory(std::size_t max_bytes) {
  return std::make_shared<Limited>(max_bytes);
}

// The size is checked here and in view(), so bytes() need not check again.
Tensor::Tensor(DType dtype, const Shape& shape) : shape_(shape), dtype_(dtype) {
  const std::size_t size = byte_size(shape, dtype);
  if (dtype == DType::string) {
    const auto strings = std::make_shared<Strings>(shape);
    data_ = strings->values.data();
    keep_ = strings;
    strings_ = strings.get();
  } else {
    const auto block = std::make_shared<Block>(current_memory(), size);
    data_ = block->bytes.data();
    keep_ = block;
  }
}

void Tensor::reserve_string_bytes(std::size_t count, std::size_t each) const {
  if (strings_ == nullptr || count == 0 || each == 0) return;
  if (each > std::numeric_limits<std::size_t>::max() / 2 / count)
    throw Error(Code::exhausted, "the strings exceed the available memory");
  strings_->reserve(count * each);
}

std::size_t string_bytes(std::span<const std::string> strings) noexcept {
  static const std::size_t in_place = std::string().capacity();
  std::size_t sum = 0;
  for (const std::string& one : strings)
    if (one.size() > in_place) sum += one.size();
  return sum;
}

Tensor Tensor::view(DType dtype, const Shape& shape, void* data, std::shared_ptr<const void> keep) {
  Tensor tensor;
  (void)byte_size(shape, dtype);  // throws if it is not addressable
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.data_ = data;
  tensor.keep_ = std::move(keep);
  return tensor;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (checked_size(shape.dims()) != size())
    throw Error(Code::invalid_argument, "elements of " + to_string(shape_) +
                                            " do not make a tensor of " + to_string(shape));
  Tensor other = *this;
  other.shape_ = shape;
  return other;
}

}  // namespace sluice
