#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/process/spawn.h"
#include "compute/worker/worker.h"
#include "compute/worker/worker_protocol.h"

namespace sluice::compute {
namespace {

// The file of arrays; it grows, and is mapped anew when it has.
class SharedFile {
 public:
  ~SharedFile() { unmap(); }
  // Returns nothing when it cannot be mapped.
  std::byte* map(Accelerator& accelerator) {
    struct stat now {};
    if (fstat(kSpawnedFile, &now) != 0) return nullptr;
    const auto bytes = static_cast<std::size_t>(now.st_size);
    if (bytes == bytes_ || bytes == 0) return data_;
    if (data_ != nullptr) accelerator.unpin(data_);
    unmap();
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kSpawnedFile, 0);
    if (at == MAP_FAILED) return nullptr;
    data_ = static_cast<std::byte*>(at);
    bytes_ = bytes;
    accelerator.pin(data_, bytes_);
    return data_;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void unmap() {
    if (data_ != nullptr) munmap(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

AnswerPacket answer(Answer what, std::string_view text = {}, Taken taken = {}) {
  AnswerPacket packet{.answer = what, .taken = taken, .text = {}, .pools = {}};
  put_text(packet.text, text);
  return packet;
}

const Operation* find(std::span<const Operation* const> operations, std::string_view name) {
  for (const Operation* operation : operations)
    if (operation->name == name) return operation;
  return nullptr;
}

AnswerPacket run(Accelerator& accelerator, SharedFile& file,
                 std::span<const Operation* const> operations, const CallPacket& packet) {
  std::byte* const data = file.map(accelerator);
  const auto call = unpack(packet, data, file.bytes());
  if (!call) return answer(Answer::fault, "the call does not fit its file");
  const Operation* const operation = find(operations, packet.operation.data());
  if (operation == nullptr)
    return answer(Answer::refused, std::string("no operation ") + packet.operation.data());
  try {
    return answer(Answer::done, {}, accelerator.run(*operation, *call));
  } catch (const DeviceRefusal& refusal) {
    return answer(Answer::refused, refusal.reason());
  } catch (const Error& error) {
    if (error.code() != Code::exhausted) return answer(Answer::fault, error.reason());
    accelerator.trim();
    return answer(Answer::exhausted, error.reason());
  }
}

bool say(AnswerPacket packet, const Accelerator* accelerator) {
  if (accelerator != nullptr) packet.pools = pack(accelerator->pools());
  return send(kSpawnedSocket, &packet, sizeof packet, MSG_NOSIGNAL) == sizeof packet;
}

}  // namespace

int serve_calls(const MakeAccelerator& make, std::span<const Operation* const> operations) {
  std::unique_ptr<Accelerator> accelerator;
  try {
    accelerator = make();
  } catch (const Error& error) {
    say(answer(Answer::fault, error.reason()), nullptr);
    return 1;
  }
  SharedFile file;
  say(answer(Answer::ready, accelerator->name()), accelerator.get());
  for (;;) {
    CallPacket packet;
    const auto got = recv(kSpawnedSocket, &packet, sizeof packet, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof packet) return got == 0 ? 0 : 1;
    const AnswerPacket reply = run(*accelerator, file, operations, packet);
    // After a fault CUDA is of no use here any more; the other side starts a new worker.
    const bool failed = reply.answer == Answer::fault;
    if (!say(reply, failed ? nullptr : accelerator.get()) || failed) return 1;
  }
}

}  // namespace sluice::compute
