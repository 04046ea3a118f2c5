// A short, repeatable run of tokenize_fuzz.cc.
#include "smoke.h"
#include "text/small_tokenizers_for_tests.h"

int main() {
  using namespace sluice;
  std::mt19937 random(3);
  std::vector<std::string> seeds;
  for (int i = 0; i < 20; ++i) seeds.push_back(text::odd_text(random));
  return fuzz::run("tokenize_fuzz_smoke", seeds,
                   {.variants = 1000,
                    .alphabet = " \n\t'[<\xC2\xA0\xE2\x80\x8D\xCC\x81\xFF",
                    .fragments = {"[MASK]", "<mask>", "   ", "\xE3\x80\x80", "\xF0\x9F\x91\xA9"},
                    .runs = 1});
}
