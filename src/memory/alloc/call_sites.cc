#include "memory/alloc/call_sites.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#if __has_include(<execinfo.h>)
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#endif

namespace sluice::memory {
namespace {

constexpr int kSkip = 2;  // add() and allocate()

#if __has_include(<execinfo.h>)
int frames_here(void** frames, int max_frames) { return ::backtrace(frames, max_frames); }

// The function, or the file and the place in it where that is not exported.
std::string name_of(void* frame) {
  Dl_info info{};
  if (::dladdr(frame, &info) == 0 || info.dli_fname == nullptr) return fmt::format("{}", frame);
  if (info.dli_sname != nullptr) {
    int status = 0;
    char* const plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    std::string name = status == 0 ? plain : info.dli_sname;
    std::free(plain);
    return name;
  }
  const auto in_file = static_cast<char*>(frame) - static_cast<char*>(info.dli_fbase);
  return fmt::format("{}+{:#x}", info.dli_fname, in_file);
}
#else
int frames_here(void**, int) { return 0; }
std::string name_of(void*) { return {}; }
#endif

}  // namespace

void TrackedAllocator::Sites::add(void* pointer, std::size_t bytes) {
  void* all[8 + kSkip] = {};
  frames_here(all, 8 + kSkip);
  Block block{bytes, {}};
  std::copy(all + kSkip, all + kSkip + 8, block.frames.begin());
  const Lock lock(mutex_);
  blocks_[pointer] = block;
}

void TrackedAllocator::Sites::remove(void* pointer) {
  const Lock lock(mutex_);
  blocks_.erase(pointer);
}

std::vector<CallSite> TrackedAllocator::Sites::out() const {
  std::map<Frames, CallSite> by_frames;
  {
    const Lock lock(mutex_);
    for (const auto& [_, block] : blocks_) {
      CallSite& site = by_frames[block.frames];
      site.bytes += block.bytes;
      ++site.count;
    }
  }
  std::vector<CallSite> sites;
  for (auto& [frames, site] : by_frames) {
    for (void* const frame : frames)
      if (frame != nullptr) site.where += (site.where.empty() ? "" : " < ") + name_of(frame);
    sites.push_back(std::move(site));
  }
  std::sort(sites.begin(), sites.end(),
            [](const CallSite& a, const CallSite& b) { return a.bytes > b.bytes; });
  return sites;
}

}  // namespace sluice::memory
