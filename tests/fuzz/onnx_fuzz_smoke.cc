// A short, repeatable run of onnx_fuzz.cc: what is kept in its corpus; a graph, one with a body,
// one with a function, and many damaged ones.
// Usage: onnx_fuzz_smoke CORPUS_FOLDER
#include "formats/onnx/build_for_tests.h"
#include "smoke.h"

namespace {

using namespace sluice::onnx;

std::string plain() {
  return model(Message()
                   .message(1, node("Add", {"x", "w"}, {"a"}))
                   .message(1, node("Mul", {"a", "a"}, {"y"}))
                   .message(5, float_tensor("w", {2}, {1.5f, -2}))
                   .message(11, value_info("x", 1, {3, 2}))
                   .message(12, value_info("y", 1, {3, 2})))
      .text();
}

std::string branches() {
  const Message body =
      Message().message(1, node("Add", {"x", "x"}, {"z"})).message(12, value_info("z", 1, {2}));
  const auto branch = [&](std::string_view name) {
    return Message().bytes(1, name).integer(20, 5).message(6, body);
  };
  return model(Message()
                   .message(1, node("If", {"c"}, {"y"})
                                   .message(5, branch("then_branch"))
                                   .message(5, branch("else_branch")))
                   .message(11, value_info("c", 9, {}))
                   .message(11, value_info("x", 1, {2}))
                   .message(12, value_info("y", 1, {2})))
      .text();
}

std::string called() {
  const Message opset = Message().bytes(1, "mine").integer(2, 1);
  const Message function = Message()
                               .bytes(1, "F")
                               .bytes(10, "mine")
                               .bytes(4, "in")
                               .bytes(5, "out")
                               .message(7, node("Mul", {"in", "in"}, {"out"}))
                               .message(9, Message().bytes(1, "").integer(2, 17));
  return model(Message()
                   .message(1, node("F", {"x"}, {"y"}).bytes(7, "mine"))
                   .message(11, value_info("x", 1, {2}))
                   .message(12, value_info("y", 1, {2})))
      .message(8, opset)
      .message(25, function)
      .text();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const std::string& kept : sluice::fuzz::corpus(argv[1])) sluice::fuzz::feed(kept);
  return sluice::fuzz::run("onnx_fuzz_smoke",
                           std::vector<std::string>{plain(), branches(), called()},
                           {.variants = 20'000, .alphabet = "\x08\x0a\x12\x7f\xff\x01", .runs = 1});
}
