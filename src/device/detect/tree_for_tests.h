// A folder that a test fills like a machine's /proc and /sys and hands to a reader
// as its root. Gone when the object is.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "device/sysfs.h"

namespace sluice::device {

class Tree {
 public:
  Tree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-tree-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
    root_ = pattern;
  }
  ~Tree() { std::filesystem::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const Path& root() const { return root_; }

  Tree& file(std::string_view path, std::string_view text) {
    const auto at = under(root_, path);
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at, std::ios::binary) << text;
    return *this;
  }

  // A symbolic link at `path`; `to` is absolute in the tree.
  Tree& link(std::string_view path, std::string_view to) {
    const auto at = under(root_, path);
    std::filesystem::create_directories(at.parent_path());
    std::filesystem::create_symlink(under(root_, to), at);
    return *this;
  }

 private:
  Path root_;
};

}  // namespace sluice::device
