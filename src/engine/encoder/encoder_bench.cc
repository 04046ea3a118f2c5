// Times an encoder on token ids from a file, for bench/encoder_bench.py:
//
//   engine_encoder_bench MODEL THREADS TOKENS
//
// TOKENS holds int32: the number of sequences, cu_seqlens (one more), the ids. Each line on
// standard input runs them all once; "seconds" is answered. "profile" answers with the steps of one
// program of 2,048 tokens; "vectors FILE" writes the vectors of all sequences as f32.
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/encoder/encoder.h"
#include "engine/io/hf_import.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::int32_t> read_ints(const char* file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::int32_t> ints(bytes.size() / sizeof(std::int32_t));
  std::copy_n(bytes.begin(), ints.size() * sizeof(std::int32_t),
              reinterpret_cast<char*>(ints.data()));
  return ints;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sluice;
  if (argc != 4) return 2;
  const std::vector<std::int32_t> ints = read_ints(argv[3]);
  const auto count = static_cast<std::size_t>(ints.at(0));
  const std::span<const std::int32_t> all(ints);
  const engine::PackedTokens tokens{
      .ids = all.subspan(count + 2), .type_ids = {}, .cu_seqlens = all.subspan(1, count + 1)};
  compute::Workers workers(std::stoi(argv[2]));
  const Clock::time_point begin = Clock::now();
  const engine::Graph model = engine::import_model(argv[1]);
  const double imported = seconds_since(begin);
  const engine::Encoder encoder(model, workers,
                                {.pooling = kernels::TokenPooling::mean, .normalize = true});
  std::vector<float> vectors(count * static_cast<std::size_t>(encoder.graph().width()));
  std::cout << "imported in " << imported << " s, ready after " << seconds_since(begin) << " s"
            << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.starts_with("vectors ")) {
      encoder.run(tokens, vectors);
      std::ofstream(line.substr(8), std::ios::binary)
          .write(reinterpret_cast<const char*>(vectors.data()),
                 static_cast<std::streamsize>(vectors.size() * sizeof(float)));
      std::cout << "written" << std::endl;
      continue;
    }
    const Clock::time_point start = Clock::now();
    const auto errors = encoder.run(tokens, vectors);
    std::cout << seconds_since(start) << " " << errors.size() << std::endl;
  }
}
