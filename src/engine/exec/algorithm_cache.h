// What measuring found, by what it was measured for: the texts that plans keep.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sluice::engine {

// Holds a number of bytes at most, keys included; what was not asked for longest goes, and is
// measured anew where it is needed again.
class ChoiceTable {
 public:
  using Choices = std::map<std::string, std::string>;
  using Choice = std::shared_ptr<const std::string>;  // stays when the table forgets it

  static constexpr std::size_t kMostBytes = std::size_t{24} << 20;
  explicit ChoiceTable(std::size_t most_bytes = kMostBytes) : most_(most_bytes) {}

  Choice find(const std::string& of);  // null: not known
  void set(const std::string& of, std::string what);
  void erase(const std::string& of);
  void merge(Choices choices);  // those that are not here yet

  Choices all() const;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Entry {
    std::string of;
    Choice what;
    std::size_t bytes() const noexcept { return of.size() + what->size(); }
  };
  void make_room();

  const std::size_t most_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // the last used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> places_;
};

}  // namespace sluice::engine
