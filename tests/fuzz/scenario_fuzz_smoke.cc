// A short, repeatable run of scenario_fuzz.cc over every shipped scenario.
// Usage: scenario_fuzz_smoke SCENARIO_FOLDER
#include <filesystem>
#include <fstream>
#include <iterator>

#include "smoke.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<std::string> scenarios;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream in(entry.path());
    scenarios.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return sluice::fuzz::run("scenario_fuzz_smoke", scenarios,
                           {.variants = 150, .letters = "{}[]\":,-0e9.\\ \xff", .edits = 3});
}
