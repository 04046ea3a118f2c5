// A short, repeatable run of npy_fuzz.cc.
#include "formats/npy/npy.h"
#include "smoke.h"

int main() {
  using namespace sluice;
  const auto file = [](DType type, const Shape& shape) {
    Tensor tensor(type, shape);
    if (type != DType::string) std::fill_n(static_cast<char*>(tensor.data()), tensor.bytes(), '\1');
    return npy::format(tensor);
  };
  const std::vector<std::string> seeds{file(DType::f32, {2, 3}), file(DType::boolean, {4}),
                                       file(DType::c128, {}), file(DType::string, {3})};
  return fuzz::run(
      "npy_fuzz_smoke", seeds,
      {.variants = 5000,
       .alphabet = "0123456789,()<>|'{}:\x01\xff",
       .fragments = {"True", "False", "(9223372036854775807,)", "(288230376151711745,)", "'>f8'",
                     "'<U9'", "'|S0'", "(0, 99)", "'|O'"},
       .runs = 1});
}
