// A thread pool over the CPU's cores, for data-parallel loops.
#pragma once

#include <cstddef>
#include <memory>

namespace sluice::compute {

class Workers {
 public:
  // 0: as many as this process may use (its affinity and its control group's limit).
  explicit Workers(int threads = 0);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const noexcept;

  // Calls body(begin, end) for chunks of at most `grain` that cover [0, count), on all
  // threads, the caller's among them, and returns when all are done. What a body throws
  // is thrown here, after the others ended. Cancelled is thrown between two chunks when the
  // caller's CancelScope is; bodies may ask by throw_if_cancelled(), whichever thread they run on.
  // May be called from several threads at once, and from within a body (which then runs alone).
  template <class Body>
  void each(std::size_t count, std::size_t grain, Body&& body) {
    run(count, grain, &body, [](void* b, std::size_t begin, std::size_t end) {
      (*static_cast<std::remove_reference_t<Body>*>(b))(begin, end);
    });
  }

 private:
  using Piece = void (*)(void* body, std::size_t begin, std::size_t end);
  void run(std::size_t count, std::size_t grain, void* body, Piece piece);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::compute
