// The published option values in market/option_reference.csv of SLUICE_TEST_DATA.
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
  double number(const std::string& column, double default_value = 0) const;
  bool call() const { return text("option_type") == "call"; }

 private:
  std::map<std::string, std::string> cells_;
};

std::filesystem::path option_reference_file();

// Empty when the file is not there.
std::vector<ReferenceRow> option_reference();

}  // namespace sluice::market
