// Any bytes as a folder of an encoder: config.json up to the first zero byte, then
// model.safetensors. A graph that can be made ready and run on a few tokens, or an Error that says
// something.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "engine/io/hf_import.h"
#include "small_for_fuzz.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;

// In memory where the machine has such a folder.
class Folder {
 public:
  Folder() {
    std::string name = (fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) +
                       std::string("/hf_fuzz.XXXXXX");
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }
  void write(const char* name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  fs::path path_;
};

void run(const engine::Session& session) {
  std::vector<engine::Datum> inputs;
  for (std::size_t i = 0; i < session.graph().inputs.size(); ++i) {
    const Tensor tokens(DType::i64, {1, 2});
    std::fill_n(tokens.values<std::int64_t>().begin(), 2, i == 1 ? 1 : 0);
    inputs.emplace_back(tokens);
  }
  session.run(inputs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static compute::Workers workers(1);
  static const Folder folder;
  const TensorMemory limit(limited_memory(fuzz::kMemory));
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(all.find('\0'), all.size());
  folder.write("config.json", all.substr(0, end));
  folder.write("model.safetensors", end < all.size() ? all.substr(end + 1) : "");
  try {
    const engine::Session session(engine::import_hf(folder.path()), workers, fuzz::small_session());
    run(session);
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
