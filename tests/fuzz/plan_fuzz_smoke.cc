// A short, repeatable run of plan_fuzz.cc over what is kept in its corpus, whole and damaged.
// Usage: plan_fuzz_smoke CORPUS_FOLDER
#include "base/error.h"
#include "engine/plan/plan.h"
#include "smoke.h"

namespace {

// Plans of an earlier format are refused by their first bytes, and nothing more is tried.
bool is_stale(const std::filesystem::path& folder) {
  sluice::compute::Workers workers(1);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) try {
      (void)sluice::engine::read_plan(entry.path(), workers);
      return false;
    } catch (const sluice::Error&) {
    }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (is_stale(argv[1])) {
    std::puts("no plan in the corpus is read any more: write them anew by make_corpus.py");
    return 1;
  }
  return sluice::fuzz::run("plan_fuzz_smoke", sluice::fuzz::corpus(argv[1]),
                           {.variants = 300, .alphabet = "\x08\x0a\x12\x7f\xff\x01", .runs = 1});
}
