// A short, repeatable run of hf_fuzz.cc over what is kept in its corpus, whole and damaged.
// Usage: hf_fuzz_smoke CORPUS_FOLDER
#include "smoke.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return sluice::fuzz::run("hf_fuzz_smoke", sluice::fuzz::corpus(argv[1]),
                           {.variants = 100, .alphabet = "{}[]\":,-0e9.\\ \xff", .runs = 1});
}
