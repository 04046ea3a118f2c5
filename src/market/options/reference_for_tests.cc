#include "market/options/reference_for_tests.h"

#include <fstream>
#include <sstream>

namespace sluice::market {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

}  // namespace

double ReferenceRow::number(const std::string& column, double default_value) const {
  const std::string& cell = text(column);
  return cell.empty() ? default_value : std::stod(cell);
}

std::filesystem::path option_reference_file() {
  return std::filesystem::path(SLUICE_TEST_DATA) / "market" / "option_reference.csv";
}

std::vector<ReferenceRow> option_reference() {
  std::ifstream file(option_reference_file());
  std::vector<ReferenceRow> rows;
  std::string line;
  if (!std::getline(file, line)) return rows;
  const auto header = split(line);
  while (std::getline(file, line)) {
    auto cells = split(line);
    cells.resize(header.size());
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells[i];
    rows.emplace_back(std::move(row));
  }
  return rows;
}

}  // namespace sluice::market
