#include "compute/worker/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process/spawn.h"
#include "compute/worker/worker_protocol.h"

namespace sluice::compute {
namespace {

constexpr int kTriesToReap = 100;  // a millisecond apart

// A file in memory that two processes map; it only grows.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("sluice-worker", MFD_CLOEXEC)) {
    if (fd_ < 0) throw Error(Code::internal, "cannot make a file in memory");
  }
  ~MemoryFile() {
    if (data_ != nullptr) munmap(data_, bytes_);
    close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  std::byte* at_least(std::size_t bytes) {
    if (bytes <= bytes_) return data_;
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
      throw Error(Code::exhausted, "no memory to hand the GPU worker its arrays");
    if (data_ != nullptr) munmap(data_, bytes_);
    bytes_ = 0;
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) {
      data_ = nullptr;
      throw Error(Code::exhausted, "no addresses to hand the GPU worker its arrays");
    }
    bytes_ = bytes;
    return data_ = static_cast<std::byte*>(at);
  }

 private:
  const int fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class WorkerAccelerator final : public Accelerator {
 public:
  explicit WorkerAccelerator(WorkerOptions options)
      : options_(std::move(options)), pause_s_(options_.first_pause_s) {
    const Lock lock(mutex_);
    start();
  }
  ~WorkerAccelerator() override {
    const Lock lock(mutex_);
    end();
  }

  std::string name() const override {
    const Lock lock(state_mutex_);
    return name_;
  }
  std::string why_not() override;
  Taken run(const Operation& operation, const Call& call) override;
  std::size_t trim() noexcept override { return 0; }  // the worker trims by itself
  std::vector<memory::PoolStatistics> pools() const override {
    const Lock lock(state_mutex_);
    return pools_;
  }

 private:
  enum class State { starting, well, ended };

  void start() REQUIRES(mutex_);
  void end() REQUIRES(mutex_);
  std::string last_words() REQUIRES(mutex_);
  [[noreturn]] void give_up(const std::string& why) REQUIRES(mutex_);
  void ended(const std::string& why) REQUIRES(mutex_);
  // Returns nothing when none came in time.
  std::optional<AnswerPacket> listen(double seconds) REQUIRES(mutex_);
  void look() REQUIRES(mutex_);
  void set_state(State state, std::string why);

  const WorkerOptions options_;
  mutable Mutex mutex_;  // the process and its file: held for the length of a call
  MemoryFile file_ GUARDED_BY(mutex_);
  Spawned child_ GUARDED_BY(mutex_);
  std::vector<pid_t> dying_ GUARDED_BY(mutex_);  // killed, not yet gone
  double pause_s_ GUARDED_BY(mutex_);

  mutable Mutex state_mutex_;  // what why_not() asks, which must not wait for a call
  State state_ GUARDED_BY(state_mutex_) = State::starting;
  std::string why_ GUARDED_BY(state_mutex_);
  std::string name_ GUARDED_BY(state_mutex_) = "GPU worker";
  Instant again_ GUARDED_BY(state_mutex_){};
  std::vector<memory::PoolStatistics> pools_ GUARDED_BY(state_mutex_);  // by its last answer
};

void WorkerAccelerator::set_state(State state, std::string why) {
  const Lock lock(state_mutex_);
  state_ = state;
  why_ = std::move(why);
}

void WorkerAccelerator::start() {
  try {
    child_ = spawn(options_.program, options_.arguments, SOCK_SEQPACKET, file_.fd());
    set_state(State::starting, "the GPU worker is starting");
  } catch (const Error& error) {
    ended(std::string(error.reason()));
  }
}

// A process that hangs in a driver may take long to die: it is not waited for now.
void WorkerAccelerator::end() {
  if (child_.fd >= 0) close(child_.fd);
  if (child_.pid > 0) {
    ::kill(child_.pid, SIGKILL);
    dying_.push_back(child_.pid);
  }
  child_ = {};
  std::erase_if(dying_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
}

// Describes the exit of a worker that closed its socket.
std::string WorkerAccelerator::last_words() {
  for (int i = 0; i < kTriesToReap; ++i) {
    int status = 0;
    if (waitpid(child_.pid, &status, WNOHANG) == child_.pid) {
      child_.pid = -1;
      return how_it_ended(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return "it closed its socket";
}

// Pauses before the next one is started.
void WorkerAccelerator::ended(const std::string& why) {
  end();
  log::warn("the GPU worker ended: {}; the next one starts in {:.3g} s", why, pause_s_);
  set_state(State::ended, "the GPU worker ended: " + why);
  {
    const Lock lock(state_mutex_);
    again_ = Steady::now() + std::chrono::duration_cast<Steady::duration>(Seconds(pause_s_));
    pools_.clear();  // they ended with it
  }
  pause_s_ = std::min(2 * pause_s_, options_.longest_pause_s);
}

void WorkerAccelerator::give_up(const std::string& why) {
  ended(why);
  throw DeviceFault(why);
}

std::optional<AnswerPacket> WorkerAccelerator::listen(double seconds) {
  pollfd ready{.fd = child_.fd, .events = POLLIN, .revents = 0};
  const Instant until =
      Steady::now() + std::chrono::duration_cast<Steady::duration>(Seconds(seconds));
  for (;;) {
    const double left = std::max(0.0, seconds_between(Steady::now(), until));
    const int n = poll(&ready, 1, static_cast<int>(left * 1e3 + 0.5));
    if (n == 0) return std::nullopt;
    if (n < 0 && errno == EINTR) continue;
    AnswerPacket packet;
    const auto got = recv(child_.fd, &packet, sizeof packet, 0);
    if (got != sizeof packet) give_up(last_words());
    const Lock lock(state_mutex_);
    pools_ = unpack(packet.pools);
    return packet;
  }
}

// Notices that a starting worker is ready, or starts the next one when it is time.
void WorkerAccelerator::look() {
  State state;
  bool due;
  {
    const Lock lock(state_mutex_);
    state = state_;
    due = Steady::now() >= again_;
  }
  if (state == State::ended && due) start();
  if (state != State::starting) return;
  const auto packet = listen(0);
  if (!packet) return;
  if (packet->answer != Answer::ready) give_up(packet->text.data());
  set_state(State::well, "");
  const Lock lock(state_mutex_);
  name_ = packet->text.data();
}

std::string WorkerAccelerator::why_not() {
  {
    const Lock lock(state_mutex_);
    if (state_ == State::well) return "";
  }
  try {
    const Lock lock(mutex_);
    look();
  } catch (const DeviceFault&) {  // why_ says it
  }
  const Lock lock(state_mutex_);
  return state_ == State::well ? "" : why_;
}

void copy_in(const Call& file, const Call& call) {
  for (std::size_t i = 0; i < call.in.size(); ++i)
    if (const std::size_t bytes = call.in[i].bytes(call.items))
      std::memcpy(file.in[i].data, call.in[i].data, bytes);
}
void copy_out(const Call& call, const Call& file) {
  for (std::size_t i = 0; i < call.out.size(); ++i)
    if (const std::size_t bytes = call.out[i].bytes(call.items))
      std::memcpy(call.out[i].data, file.out[i].data, bytes);
}

Taken WorkerAccelerator::run(const Operation& operation, const Call& call) {
  const Lock lock(mutex_);
  if (child_.fd < 0) throw DeviceFault("the GPU worker ended");
  const CallPacket packet = pack(operation, call);
  const std::size_t bytes = file_bytes(call);
  const Instant start = Steady::now();
  std::byte* const data = file_.at_least(bytes);
  const auto shared = unpack(packet, data, bytes);
  copy_in(*shared, call);
  const double there_s = seconds_between(start, Steady::now());
  if (send(child_.fd, &packet, sizeof packet, MSG_NOSIGNAL) != sizeof packet)
    give_up("it takes no calls");
  const auto answer = listen(options_.timeout_s);
  if (!answer) give_up(fmt::format("it did not answer for {:.3g} s", options_.timeout_s));
  if (answer->answer == Answer::exhausted) throw Error(Code::exhausted, answer->text.data());
  if (answer->answer == Answer::refused) throw DeviceRefusal(answer->text.data());
  if (answer->answer != Answer::done) give_up(answer->text.data());
  pause_s_ = options_.first_pause_s;
  const Instant computed = Steady::now();
  copy_out(call, *shared);
  return {there_s + answer->taken.copy_in, answer->taken.compute,
          answer->taken.copy_out + seconds_between(computed, Steady::now())};
}

}  // namespace

std::unique_ptr<Accelerator> make_worker_accelerator(WorkerOptions options) {
  return std::make_unique<WorkerAccelerator>(std::move(options));
}

}  // namespace sluice::compute
