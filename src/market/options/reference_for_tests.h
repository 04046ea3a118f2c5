// The published option values in shared/data/market/option_reference.csv, where the tests
// find them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace sluice::market {

class ReferenceRow {
 public:
  explicit ReferenceRow(std::map<std::string, std::string> cells) : cells_(std::move(cells)) {}
  const std::string& text(const std::string& column) const { return cells_.at(column); }
  double number(const std::string& column, double otherwise = 0) const;
  bool call() const { return text("option_type") == "call"; }

 private:
  std::map<std::string, std::string> cells_;
};

std::filesystem::path option_reference_file();

// Empty when the file is not there.
std::vector<ReferenceRow> option_reference();

}  // namespace sluice::market
