// Keeps this project's own vectors to AVX2, where the processor does not let cpuid be hidden
// (see no_avx512.c):
//
//   c++ -shared -fPIC -o no_avx512_highway.so bench/no_avx512_highway.cc -lhwy
//   LD_PRELOAD=./no_avx512_highway.so ONEDNN_MAX_CPU_ISA=AVX2 bench/market_interleaved.py build/sluice
#include <hwy/targets.h>

[[gnu::constructor]] static void keep_to_avx2() {
  hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & ~(HWY_AVX2 - 1));  // better: lower
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}
