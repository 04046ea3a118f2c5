// Many clients that ask for a lease and give it back, over the server's Unix socket, from
// one thread that does as little as it can: the machine's cores are the server's.
//
//   lease_load SOCKET CLIENTS SECONDS RATE    RATE: pairs a second of all clients together;
//                                             0: each asks again at once
//
// With a rate, a request's time counts from when it was due, so that a server that stalls
// does not hide what it kept from being asked. Prints one JSON object.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "lease_load: %s\n", what.c_str());
  std::exit(1);
}

// The text behind `"name":"` in `json`.
std::string_view field(std::string_view json, std::string_view name) {
  const auto begin = json.find(name);
  if (begin == json.npos) return {};
  const auto rest = json.substr(begin + name.size());
  return rest.substr(0, rest.find('"'));
}

struct Figures {
  std::vector<double> requests, releases;  // seconds
  std::vector<double> late;                // of a request, from when it was due to when it was sent
  std::size_t refused = 0, failed = 0;
};

class Client {
 public:
  Client(const std::string& path, int number) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) fail("the socket's path is too long");
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0 || connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      fail(path + ": " + std::strerror(errno));
    const auto body =
        "{\"agent\":\"load-" + std::to_string(number % 16) + "\",\"memory_gb\":0.01,\"ttl_s\":60}";
    ask_ =
        "POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int fd() const { return fd_; }

  void ask(Time due) {
    due_ = due;
    is_asking_ = true;
    send(ask_);
  }

  // Takes what has arrived; true when the pair is complete.
  bool take(Figures& figures) {
    char bytes[8192];
    const auto n = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0 && errno != EAGAIN) fail("the server closed a connection");
    if (n > 0) in_.append(bytes, static_cast<std::size_t>(n));
    const auto head = in_.find("\r\n\r\n");
    if (head == in_.npos) return false;
    const auto length = in_.find("Content-Length: ");
    const auto size = static_cast<std::size_t>(std::atoll(in_.c_str() + length + 16));
    if (in_.size() < head + 4 + size) return false;
    const auto body = std::string_view(in_).substr(head + 4, size);
    const bool is_good = in_.compare(9, 3, "200") == 0;
    const bool is_complete =
        is_asking_ ? granted(body, is_good, figures) : released(is_good, figures);
    in_.clear();
    return is_complete;
  }

 private:
  bool granted(std::string_view body, bool is_good, Figures& figures) {
    figures.requests.push_back(std::chrono::duration<double>(Clock::now() - due_).count());
    const auto token = field(body, "\"token\":\"");
    if (!is_good || token.empty()) return ++figures.failed, true;
    if (body.find("\"status\":\"allocated\"") == body.npos) ++figures.refused;
    give_back_.assign("DELETE /v1/leases/").append(token.substr(0, token.find('.')));
    give_back_.append("?token=").append(token).append(" HTTP/1.1\r\nHost: localhost\r\n\r\n");
    due_ = Clock::now();
    is_asking_ = false;
    send(give_back_);
    return false;
  }

  bool released(bool is_good, Figures& figures) {
    figures.releases.push_back(std::chrono::duration<double>(Clock::now() - due_).count());
    if (!is_good) ++figures.failed;
    return true;
  }

  void send(const std::string& text) const {
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
      fail("a request could not be sent");
  }

  int fd_;
  std::string ask_, give_back_, in_;
  Time due_;
  bool is_asking_ = false;
};

void print(const char* name, std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double p) {
    return times.empty() ? 0 : 1e3 * times[static_cast<std::size_t>(p * double(times.size() - 1))];
  };
  std::printf(
      "\"%s\": {\"p50_ms\": %.4f, \"p90_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, "
      "\"max_ms\": %.4f}, ",
      name, at(0.5), at(0.9), at(0.99), at(0.999), at(1));
}

class Load {
 public:
  Load(const std::string& path, int clients, double rate) : epoll_(epoll_create1(0)) {
    period_ = rate > 0 ? clients / rate : 0;
    for (int i = 0; i < clients; ++i) {
      clients_.push_back(std::make_unique<Client>(path, i));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u32 = static_cast<std::uint32_t>(i);
      epoll_ctl(epoll_, EPOLL_CTL_ADD, clients_.back()->fd(), &event);
    }
  }
  ~Load() { close(epoll_); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // As many as ask at random times: the gaps are exponential.
  void run(double seconds) {
    const auto begin = Clock::now();
    const auto end = begin + duration(seconds);
    for (std::size_t i = 0; i < clients_.size(); ++i) due_.push({begin + gap(), i});
    busy_ = 0;
    while (Clock::now() < end || busy_ > 0) {
      const bool is_open = Clock::now() < end;
      while (is_open && !due_.empty() && due_.top().first <= Clock::now()) start();
      if (!is_open && busy_ == 0) break;
      wait(is_open && !due_.empty() ? std::min(due_.top().first, end) : end + duration(5));
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void print_all() {
    std::printf("{\"clients\": %zu, \"seconds\": %.2f, \"pairs\": %zu, \"pairs_per_s\": %.0f, ",
                clients_.size(), seconds_, figures_.releases.size(),
                double(figures_.releases.size()) / seconds_);
    print("request", figures_.requests);
    print("release", figures_.releases);
    print("client_late", figures_.late);
    std::printf("\"not_granted\": %zu, \"failed\": %zu}\n", figures_.refused, figures_.failed);
  }

  void forget() { figures_ = {}, due_ = {}; }

 private:
  using Due = std::pair<Time, std::size_t>;

  static Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  Clock::duration gap() {
    return period_ > 0 ? duration(std::exponential_distribution<double>(1 / period_)(random_))
                       : Clock::duration{};
  }

  void start() {
    const auto [due, client] = due_.top();
    due_.pop();
    ++busy_;
    const auto now = Clock::now();
    figures_.late.push_back(std::chrono::duration<double>(now - due).count());
    clients_[client]->ask(period_ > 0 ? due : now);
    last_due_.resize(clients_.size());
    last_due_[client] = due;
  }

  // Its next request is due a gap after the last one was, not after that was answered.
  void again(std::size_t client) {
    --busy_;
    due_.push({period_ > 0 ? last_due_[client] + gap() : Clock::now(), client});
  }

  void wait(Time until) {
    const auto left = std::max(Clock::duration{}, until - Clock::now());
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec time{static_cast<time_t>(ns / 1'000'000'000),
                        static_cast<long>(ns % 1'000'000'000)};
    pollfd ready{epoll_, POLLIN, 0};
    if (ppoll(&ready, 1, &time, nullptr) <= 0) return;
    epoll_event events[64];
    const int n = epoll_wait(epoll_, events, 64, 0);
    for (int i = 0; i < n; ++i)
      if (clients_[events[i].data.u32]->take(figures_)) again(events[i].data.u32);
  }

  const int epoll_;
  double period_ = 0, seconds_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<Time> last_due_;
  std::size_t busy_ = 0;
  Figures figures_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) fail("usage: lease_load SOCKET CLIENTS SECONDS RATE");
  Load load(argv[1], std::atoi(argv[2]), std::atof(argv[4]));
  load.run(1);  // until buffers and caches have their size
  load.forget();
  load.run(std::atof(argv[3]));
  load.print_all();
  return 0;
}
