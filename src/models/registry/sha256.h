// SHA-256 of a stream of bytes, in hexadecimal.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace sluice::models {

class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void add(std::string_view bytes);
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::models
