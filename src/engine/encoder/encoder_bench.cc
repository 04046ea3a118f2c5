// Times an encoder on token ids from a file, for bench/embed_bench.py and
// bench/encoder_gpu_bench.py:
//
//   engine_encoder_bench MODEL DEVICE TOKENS [PRECISION]
//
// DEVICE: a number of threads of the CPU, or "cuda". TOKENS holds int32: the number of sequences,
// cu_seqlens (one more), the ids. Commands on standard input, each answered by a line:
//
//   run               all sequences once: "seconds errors"
//   calls N           N calls of all sequences, submitted at once: "seconds"
//   first TOKENS N    the first TOKENS ids as one sequence, N times: "p50 p99" in us
//   mixes N           N random mixes of the sequences, each twice: p50 and p99 of the first time,
//                     and of what it took longer than the second, in us
//   profile           the kernels of one batch, one a line, with their us; then an empty line
//   vectors FILE      writes the vectors of all sequences as f32
#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "engine/encoder/encoder.h"
#include "engine/exec/cuda/bucket_program.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/io/hf_import.h"

namespace {

using namespace sluice;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double percentile(std::vector<double> all, double share) {
  std::ranges::sort(all);
  return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
}

std::vector<std::int32_t> read_ints(const char* file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::int32_t> ints(bytes.size() / sizeof(std::int32_t));
  std::copy_n(bytes.begin(), ints.size() * sizeof(std::int32_t),
              reinterpret_cast<char*>(ints.data()));
  return ints;
}

class Bench {
 public:
  Bench(const engine::Encoder& encoder, engine::PackedTokens tokens)
      : encoder_(encoder), tokens_(tokens), vectors_(numbers(tokens)) {}

  void answer(const std::string& line) {
    std::istringstream words(line);
    std::string what, file;
    std::size_t a = 0, b = 0;
    words >> what;
    if (what == "vectors" && words >> file) return write(file);
    if (what == "calls" && words >> a) return calls(a);
    if (what == "first" && words >> a >> b) return first(a, b);
    if (what == "mixes" && words >> a) return mixes(a);
    if (what == "profile") return profile();
    std::size_t errors = 0;
    const double seconds = time(tokens_, vectors_, &errors);
    std::cout << seconds << " " << errors << std::endl;
  }

 private:
  std::size_t numbers(const engine::PackedTokens& tokens) const {
    return tokens.sequences() * static_cast<std::size_t>(encoder_.graph().width());
  }
  double time(const engine::PackedTokens& tokens, std::span<float> out,
              std::size_t* errors = nullptr) const {
    const Clock::time_point start = Clock::now();
    const auto found = encoder_.run(tokens, out);
    const double seconds = seconds_since(start);
    if (errors != nullptr) *errors = found.size();
    return seconds;
  }

  void write(const std::string& file) {
    encoder_.run(tokens_, vectors_);
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(vectors_.data()),
               static_cast<std::streamsize>(vectors_.size() * sizeof(float)));
    std::cout << "written" << std::endl;
  }

  void calls(std::size_t count) {
    std::vector<std::vector<float>> out(count, std::vector<float>(vectors_.size()));
    std::vector<std::promise<void>> ends(count);
    encoder_.wait_until_ready();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < count; ++i)
      (void)encoder_.submit({.tokens = tokens_, .out = out[i]},
                            [&ends, i](const engine::EncodeResult&) { ends[i].set_value(); });
    for (auto& end : ends) end.get_future().wait();
    std::cout << seconds_since(start) << std::endl;
  }

  void first(std::size_t tokens, std::size_t times) {
    const std::int32_t cu_seqlens[] = {0, static_cast<std::int32_t>(tokens)};
    const engine::PackedTokens one{
        .ids = tokens_.ids.first(tokens), .type_ids = {}, .cu_seqlens = cu_seqlens};
    for (int i = 0; i < 20; ++i) time(one, std::span(vectors_).first(numbers(one)));
    encoder_.wait_until_ready();
    std::vector<double> us;
    for (std::size_t i = 0; i < times + 20; ++i)
      us.push_back(time(one, std::span(vectors_).first(numbers(one))) * 1e6);
    std::cout << percentile(us, 0.5) << " " << percentile(us, 0.99) << std::endl;
  }

  // The first sequences of the file from a random one on: as many as a random number.
  void mixes(std::size_t count) {
    std::vector<double> news, more;
    for (std::size_t i = 0; i < count; ++i) {
      std::uniform_int_distribution<std::size_t> from(0, tokens_.sequences() - 1);
      const std::size_t begin = from(random_);
      std::uniform_int_distribution<std::size_t> length(1, tokens_.sequences() - begin);
      const engine::PackedTokens mix{
          .ids = tokens_.ids,
          .type_ids = {},
          .cu_seqlens = tokens_.cu_seqlens.subspan(begin, length(random_) + 1)};
      const auto out = std::span(vectors_).first(numbers(mix));
      news.push_back(time(mix, out) * 1e6);
      more.push_back(news.back() - time(mix, out) * 1e6);
    }
    std::cout << percentile(news, 0.5) << " " << percentile(news, 0.99) << " "
              << percentile(more, 0.5) << " " << percentile(more, 0.99) << std::endl;
  }

  void profile() {
    // As many sequences as fit into the largest bucket.
    auto part = tokens_;
    while (part.cu_seqlens.back() > 160'000)
      part.cu_seqlens = part.cu_seqlens.first(part.sequences());
    encoder_.run(part, std::span(vectors_).first(numbers(part)));
    encoder_.wait_until_ready();
    for (const engine::KernelTime& one : encoder_.profile(part))
      std::cout << one.us << "\t" << one.kernel << "\t" << one.node << "\n";
    std::cout << std::endl;
  }

  const engine::Encoder& encoder_;
  const engine::PackedTokens tokens_;
  std::vector<float> vectors_;
  std::mt19937_64 random_{20};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const std::vector<std::int32_t> ints = read_ints(argv[3]);
  const auto count = static_cast<std::size_t>(ints.at(0));
  const std::span<const std::int32_t> all(ints);
  const engine::PackedTokens tokens{
      .ids = all.subspan(count + 2), .type_ids = {}, .cu_seqlens = all.subspan(1, count + 1)};
  const bool on_gpu = std::string_view(argv[2]) == "cuda";
  const std::string precision = argc == 5 ? argv[4] : "fp32";
  compute::Workers workers(on_gpu ? 0 : std::stoi(argv[2]));
  const Clock::time_point begin = Clock::now();
  const auto gpu = on_gpu ? engine::make_cuda_context(engine::encoder_context_options({}))
                          : std::shared_ptr<engine::cuda::Context>();
  const double started = seconds_since(begin);
  const engine::Graph model = engine::import_model(argv[1]);
  const double imported = seconds_since(begin);
  const auto device = on_gpu ? std::make_unique<engine::EncoderDevice>(gpu, workers)
                             : std::make_unique<engine::EncoderDevice>(workers);
  const engine::Encoder encoder(model, *device,
                                {.pooling = kernels::TokenPooling::mean,
                                 .normalize = true,
                                 .precision = precision == "fp16"   ? DType::f16
                                              : precision == "bf16" ? DType::bf16
                                                                    : DType::f32});
  std::cout << "device after " << started << " s, imported after " << imported << " s, ready after "
            << seconds_since(begin) << " s" << std::endl;
  Bench bench(encoder, tokens);
  for (std::string line; std::getline(std::cin, line);) bench.answer(line);
}
