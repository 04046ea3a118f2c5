#include "formats/leased_map.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace sluice {
namespace {

// File systems that break leases before any change. On network and user-space file systems another
// machine or process may change files.
bool leases_hold(int fd) {
  constexpr decltype(statfs::f_type) kLocal[] = {
      EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC};
  struct statfs facts {};
  return ::fstatfs(fd, &facts) == 0 && std::ranges::find(kLocal, facts.f_type) != std::end(kLocal);
}

}  // namespace

void* copy_of_file(int fd, std::size_t size) {
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    throw Error(Code::exhausted, "no memory for a copy of " + std::to_string(size) + " bytes");
  ::madvise(at, size, MADV_HUGEPAGE);  // three times faster
  std::string why;
  for (std::size_t done = 0; done < size && why.empty();) {
    const ssize_t got =
        ::pread(fd, static_cast<char*>(at) + done, std::min<std::size_t>(size - done, 64u << 20),
                static_cast<off_t>(done));
    if (got > 0)
      done += static_cast<std::size_t>(got);
    else if (got == 0)
      why = "it became shorter while it was read";
    else if (errno != EINTR)
      why = std::strerror(errno);
  }
  if (why.empty() && ::mprotect(at, size, PROT_READ) != 0) why = std::strerror(errno);
  if (why.empty()) return at;
  ::munmap(at, size);
  throw Error(Code::exhausted, why);
}

LeasedMaps& LeasedMaps::instance() {
  static auto* const all = new LeasedMaps;
  return *all;
}

LeasedMaps::LeasedMaps() : process_(::getpid()) {
  sigset_t io, before;
  sigemptyset(&io);
  sigaddset(&io, SIGIO);
  ::pthread_sigmask(SIG_BLOCK, &io, &before);  // the thread inherits it
  std::promise<int> started;
  try {
    std::thread([&] {
      ::pthread_setname_np(::pthread_self(), "leased-files");
      started.set_value(::gettid());
      watch();
    }).detach();
    thread_ = started.get_future().get();
  } catch (const std::system_error& error) {
    log::warn("model files are copied: no thread can be started ({})", error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

const void* LeasedMaps::map(int fd, std::size_t size) {
  // A forked child has no such thread.
  if (thread_ == 0 || ::getpid() != process_ || !leases_hold(fd)) return nullptr;
  const Lock lock(mutex_);  // so that an immediate lease break finds the mapping
  const f_owner_ex owner{F_OWNER_TID, thread_};
  if (::fcntl(fd, F_SETOWN_EX, &owner) != 0 || ::fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
    return nullptr;
  // The size was read before the lease was taken.
  struct stat facts {};
  const bool same = ::fstat(fd, &facts) == 0 && static_cast<std::size_t>(facts.st_size) == size;
  void* const at = same ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  if (at == MAP_FAILED) {
    ::fcntl(fd, F_SETLEASE, F_UNLCK);
    return nullptr;
  }
  mappings_.emplace(at, Mapping{fd, size});
  return at;
}

void LeasedMaps::unmap(const void* at) {
  const Lock lock(mutex_);
  const auto found = mappings_.find(at);
  ::munmap(const_cast<void*>(at), found->second.size);
  if (found->second.fd >= 0) {
    // A forked child may still have the file open. If it unmaps the file, the lease remains its
    // parent's.
    if (::getpid() == process_) ::fcntl(found->second.fd, F_SETLEASE, F_UNLCK);
    ::close(found->second.fd);
  }
  mappings_.erase(found);
}

// The lease is held until F_UNLCK, so the file still has the old bytes, and the addresses stay
// valid at any moment.
void LeasedMaps::make_private(void* at, Mapping& mapping) {
  struct stat before {
  }, after{};
  ::fstat(mapping.fd, &before);
  void* const copy = copy_of_file(mapping.fd, mapping.size);
  if (::mremap(copy, mapping.size, mapping.size, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
    throw Error(Code::exhausted, std::string("mremap: ") + std::strerror(errno));
  ::fstat(mapping.fd, &after);
  if (before.st_mtim.tv_sec != after.st_mtim.tv_sec ||
      before.st_mtim.tv_nsec != after.st_mtim.tv_nsec)
    throw Error(Code::exhausted, "the copy took longer than /proc/sys/fs/lease-break-time");
  ::fcntl(mapping.fd, F_SETLEASE, F_UNLCK);
  ::close(mapping.fd);
  mapping.fd = -1;
}

void LeasedMaps::watch() {
  sigset_t io;
  sigemptyset(&io);
  sigaddset(&io, SIGIO);
  for (;;) {
    if (::sigwaitinfo(&io, nullptr) < 0) continue;
    const Lock lock(mutex_);
    for (auto& [at, mapping] : mappings_) {
      if (mapping.fd < 0 || ::fcntl(mapping.fd, F_GETLEASE) == F_RDLCK) continue;
      try {
        make_private(const_cast<void*>(at), mapping);
      } catch (const Error& error) {
        // Abort: changed weights would give wrong results.
        log::error("a model file in use is being changed and cannot be copied: {}", error.reason());
        std::abort();
      }
    }
  }
}

}  // namespace sluice
