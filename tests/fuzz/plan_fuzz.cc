// Any bytes as a plan: one that a session can be made of, or an Error that says something. The
// hashes are put right, so that the rest is read at all.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "engine/io/content_hash.h"
#include "small_for_fuzz.h"

namespace {

using namespace sluice;

constexpr std::size_t kFront = 24;  // magic, the bytes of the head, their hash
constexpr std::size_t kHash = 8;    // of all before it, at the end

std::string with_valid_checksum(std::string file, compute::Workers& workers) {
  std::uint64_t head = 0;
  std::memcpy(&head, file.data() + 8, sizeof head);
  const std::size_t end = file.size() - kHash;
  if (head > end - kFront) return file;
  const std::uint64_t hash = engine::plan_hash(std::string_view(file).substr(kFront, head));
  std::memcpy(file.data() + 16, &hash, sizeof hash);
  const std::uint64_t all = engine::file_hash(std::string_view(file).substr(0, end), workers);
  std::memcpy(file.data() + end, &all, sizeof all);
  return file;
}

// A file that lies in memory alone.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : fd_(memfd_create("plan", MFD_CLOEXEC)) {
    if (fd_ < 0 || write(fd_, bytes.data(), bytes.size()) < 0) std::abort();
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

// Compiles what was planned, as far as it is small.
void use(engine::Plan plan, compute::Workers& workers) {
  std::vector<std::vector<engine::TensorType>> expected;
  for (const engine::Graph& shape : plan.shapes) {
    expected.emplace_back();
    for (const engine::ValueId id : shape.inputs)
      expected.back().push_back(engine::type_of(shape[id]));
  }
  const engine::Session session(std::move(plan), workers, fuzz::small_session());
  for (const auto& types : expected) {
    std::vector<engine::Datum> inputs;
    for (const engine::TensorType& type : types)
      inputs.emplace_back(fuzz::ones(type.dtype, type.shape));
    session.run(inputs);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static compute::Workers workers(1);
  const TensorMemory limit(limited_memory(fuzz::kMemory));
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const MemoryFile file(size < kFront + kHash ? bytes
                                              : with_valid_checksum(std::move(bytes), workers));
  try {
    (void)engine::read_plan_key(file.path());
    use(engine::read_plan(file.path(), workers), workers);
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
