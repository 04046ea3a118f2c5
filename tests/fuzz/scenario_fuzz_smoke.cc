// A short, repeatable run of scenario_fuzz.cc over every shipped scenario.
// Usage: scenario_fuzz_smoke SCENARIO_FOLDER
#include "smoke.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return sluice::fuzz::run("scenario_fuzz_smoke", sluice::fuzz::corpus(argv[1]),
                           {.variants = 150, .alphabet = "{}[]\":,-0e9.\\ \xff", .edits = 3});
}
