#include "device/library.h"

#include <dlfcn.h>

#include <vector>

#include "base/error.h"

namespace sluice::device {

namespace {

std::vector<std::string> places(std::span<const std::string_view> names,
                                std::span<const std::string> dirs) {
  std::vector<std::string> found(names.begin(), names.end());
  for (const auto& dir : dirs)
    for (const auto name : names) found.push_back(dir + "/" + std::string(name));
  return found;
}

}  // namespace

Library::Library(std::span<const std::string_view> names, std::span<const std::string> dirs) {
  std::string first_problem;
  for (const auto& place : places(names, dirs)) {
    handle_.reset(dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (handle_) {
      path_ = place;
      return;
    }
    const char* problem = dlerror();
    if (first_problem.empty() && problem != nullptr) first_problem = problem;
  }
  throw Error(Code::unavailable, first_problem);
}

void* Library::address(const char* symbol) const {
  void* found = dlsym(handle_.get(), symbol);
  if (found == nullptr) throw Error(Code::unavailable, path_ + " has no " + symbol);
  return found;
}

// Left open: libraries of this kind keep threads and exit handlers of their own,
// and taking their code away under them crashes at exit.
void Library::Close::operator()(void*) const noexcept {}

}  // namespace sluice::device
