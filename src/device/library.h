// A shared library that may or may not be here. Its absence is a reason to show,
// not a failure to start.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sluice::device {

class Library {
 public:
  // The first of `names` ("libcublasLt.so.13") that opens: where the loader looks
  // by itself, then in each of `dirs`. Throws unavailable, saying what was tried.
  Library(std::span<const std::string_view> names, std::span<const std::string> dirs);

  // Address of `symbol`, also from a library this one depends on. Throws
  // unavailable when there is none: the library is older than what we need.
  template <class Function>
  Function* find(const char* symbol) const {
    return reinterpret_cast<Function*>(address(symbol));
  }

  const std::string& path() const noexcept { return path_; }  // as it was opened

 private:
  struct Close {
    void operator()(void* handle) const noexcept;
  };
  void* address(const char* symbol) const;

  std::string path_;
  std::unique_ptr<void, Close> handle_;
};

}  // namespace sluice::device
