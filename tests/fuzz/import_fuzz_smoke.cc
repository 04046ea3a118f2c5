// A short, repeatable run of import_fuzz.cc: what is kept in the corpus of onnx_fuzz.cc, and some
// of it damaged.
// Usage: import_fuzz_smoke CORPUS_FOLDER
#include <algorithm>

#include "smoke.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<std::string> kept = sluice::fuzz::corpus(argv[1]), some;
  std::sort(kept.begin(), kept.end());  // a folder has no order
  for (std::size_t i = 0; i < kept.size(); ++i) {
    sluice::fuzz::feed(kept[i]);
    if (i % 20 == 0) some.push_back(kept[i]);
  }
  return sluice::fuzz::run("import_fuzz_smoke", some,
                           {.variants = 500, .alphabet = "\x08\x0a\x12\x7f\xff\x01", .runs = 1});
}
