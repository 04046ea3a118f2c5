// A short, repeatable run of safetensors_fuzz.cc.
#include "formats/safetensors/build_for_tests.h"
#include "smoke.h"

int main() {
  using namespace sluice;
  Tensor zeros(DType::f32, Shape{2, 3});
  for (float& x : zeros.values<float>()) x = 0;
  const std::vector<std::string> seeds{
      safetensors::file_of({{"a", zeros}, {"b", zeros}}),
      safetensors::with_header(R"({"x":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})",
                               "12345678"),
  };
  return fuzz::run("safetensors_fuzz_smoke", seeds,
                   {.variants = 10'000,
                    .alphabet = "0123456789,[]{}\":\x01\xff",
                    .fragments = {"\"shape\"", "\"data_offsets\"", "9223372036854775807",
                                  "288230376151711745", "-1", "1e9", "\"BOOL\"", "[0,0]", "null",
                                  "{\"", "\"__metadata__\":{\"a\":\"b\"},"},
                    .runs = 1,
                    .kept = 1});
}
