// Kills a broker with SIGKILL under load, again and again. The child runs a broker over a
// folder; clients in the parent query it over sockets and record the replies. After each
// restart every reply must still hold: no lease lost, none doubled, every token valid.
//
//   broker_restart_test [kills]
#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "broker/broker_for_tests.h"
#include "broker/store/store.h"

namespace sluice::broker {
namespace {

constexpr int kClients = 6;
constexpr std::uint64_t kCardGb[] = {16, 24, 24, 32, 48, 48, 80, 80};
constexpr double kWaitedForGb = 12;  // on the first card: there is capacity for one at a time

// ---- a query and its reply; both of fixed size, so that a cut is seen

struct Query {
  enum class What : std::uint32_t { ask, wait, renew, release, show } what;
  std::uint32_t gb;
  Token token;
};
struct Reply {
  enum class What : std::uint32_t { done, no, stale, over, unknown, failed } what;
  std::uint32_t card;
  Token token;
  std::uint64_t bytes;
};

bool send_all(int fd, const void* data, std::size_t size) {
  return ::send(fd, data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}
bool receive_all(int fd, void* data, std::size_t size) {
  return ::recv(fd, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

// ---- the child

Reply::What refusal_of(const LeaseError& e) {
  switch (e.outcome()) {
    case Ledger::Outcome::stale: return Reply::What::stale;
    case Ledger::Outcome::over: return Reply::What::over;
    default: return Reply::What::unknown;
  }
}

Reply reply_of(const LeaseResponse& a) {
  if (a.verdict != Verdict::granted) return {Reply::What::no, 0, {}, 0};
  const auto& part = a.lease.parts.at(0);
  const auto card = static_cast<std::uint32_t>(std::stoul(part.uuid.substr(4)));
  return {Reply::What::done, card, token_of(a.lease), part.bytes};
}

// Like an HTTP request that waits: the response comes when it is decided, or never.
Reply wait_for_capacity(Broker& broker, const Holder& holder) {
  auto w = lease_request("agent", kWaitedForGb, OnUnavailable::wait);
  w.wait = Seconds(0.3);
  w.device = "GPU-0";
  w.holder = holder;
  auto a = broker.request(w);
  while (a.verdict == Verdict::waiting && a.lease.state == State::waiting) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    a = broker.status(token_of(a.lease));
  }
  return reply_of(a);
}

Reply run_query(Broker& broker, const Query& q, const Holder& holder) {
  try {
    switch (q.what) {
      case Query::What::wait: return wait_for_capacity(broker, holder);
      case Query::What::ask: {
        auto w = lease_request("agent", static_cast<double>(q.gb));
        w.holder = holder;
        return reply_of(broker.request(w));
      }
      case Query::What::renew: return reply_of(broker.renew(q.token));
      case Query::What::show: return reply_of(broker.status(q.token));
      case Query::What::release: broker.release(q.token); return {Reply::What::done, 0, q.token, 0};
    }
  } catch (const LeaseError& e) {
    return {refusal_of(e), 0, e.current().value_or(Token{}), 0};
  } catch (const Error& e) {
    fmt::print(stderr, "broker: {}\n", e.what());
  }
  return {Reply::What::failed, 0, {}, 0};
}

void serve(Broker& broker, int fd, const Holder& holder) {
  Query q{};
  while (receive_all(fd, &q, sizeof q)) {
    const auto reply = run_query(broker, q, holder);
    if (!send_all(fd, &reply, sizeof reply)) break;
  }
  ::close(fd);
}

[[noreturn]] void run_broker(const std::string& folder, int listener, pid_t parent) {
  Host host({std::begin(kCardGb), std::end(kCardGb)});
  host.options.state_dir = folder;
  host.options.threads = true;
  host.options.now = [] { return Steady::now(); };
  host.options.wall = [] { return std::chrono::system_clock::now(); };
  Broker broker(host.options);
  if (broker.stats().waiting > 0) ::_exit(4);  // nobody would receive the response
  const auto holder = identified({parent, 0, -1, 0}, "/proc");
  std::jthread sampler([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      ++host.snapshot.sequence;
      for (auto& g : host.snapshot.gpus)
        g.readings.set(device::Metric::memory_used, 0, Steady::now());
      broker.observe(host.snapshot);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  std::vector<std::jthread> clients;
  while (true) {
    const int fd = ::accept(listener, nullptr, nullptr);
    if (fd < 0) ::_exit(3);
    clients.emplace_back([&broker, fd, holder] { serve(broker, fd, holder); });
  }
}

// ---- the parent

struct Held {
  Token token;
  std::uint32_t card;
  std::uint64_t bytes;
};

struct Findings {
  std::mutex mutex;
  std::vector<std::string> wrong;
  std::set<LeaseId> ids;  // every number ever granted
  std::atomic<std::uint64_t> grants{0}, renewals{0}, releases{0}, cut{0}, cut_waiting{0}, proved{0};

  void add(std::string what) {
    const std::scoped_lock lock(mutex);
    if (wrong.size() < 20) wrong.push_back(std::move(what));
  }
  void add_grant(LeaseId id) {
    const std::scoped_lock lock(mutex);
    if (!ids.insert(id).second) wrong.push_back(fmt::format("lease {} was given twice", id));
  }
};

class Client {
 public:
  Client(std::string socket, unsigned seed, Findings& findings)
      : socket_(std::move(socket)), random_(seed), findings_(findings) {}
  ~Client() { cut(); }

  void run(const std::atomic<bool>& stop) {
    while (!stop) {
      if (fd_ < 0 && !connect()) continue;
      step();
    }
  }
  // Nothing is in flight any more: every lease that was granted must be there.
  void prove() {
    while (fd_ < 0) connect();
    for (auto& held : held_) prove(held);
  }
  const std::vector<Held>& held() const { return held_; }

 private:
  bool connect() {
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket_.c_str(), sizeof address.sun_path - 1);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      cut();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return false;
    }
    for (auto& held : held_)  // after each restart, at once
      if (fd_ >= 0) prove(held);
    return fd_ >= 0;
  }
  void cut() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  std::optional<Reply> say(const Query& query) {
    Reply reply{};
    if (fd_ >= 0 && send_all(fd_, &query, sizeof query) && receive_all(fd_, &reply, sizeof reply))
      return reply;
    ++findings_.cut;
    cut();
    return std::nullopt;
  }
  void prove(Held& held) {
    const auto reply = say({Query::What::show, 0, held.token});
    if (!reply) return;
    if (reply->what != Reply::What::done)
      return findings_.add(fmt::format("lease {} is lost", held.token.id));
    if (reply->card != held.card || reply->bytes != held.bytes)
      findings_.add(fmt::format("lease {} has moved or changed its size", held.token.id));
    const auto ahead = reply->token.renewals - held.token.renewals;
    if (ahead > (unsure_ == held.token.id ? 1U : 0U))
      findings_.add(fmt::format("lease {} has {} renewals too many", held.token.id, ahead));
    held.token = reply->token;
    if (unsure_ == held.token.id) unsure_ = 0;
    ++findings_.proved;
  }
  void step() {
    const auto roll = random_() % 10;
    if (held_.empty() || (roll < 3 && held_.size() < 12))
      return ask(random_() % 4 == 0 ? Query::What::wait : Query::What::ask);
    auto& one = held_[random_() % held_.size()];
    if (roll < 8) return renew(one);
    release(one);
  }
  void ask(Query::What how) {
    const auto reply = say({how, 1 + static_cast<std::uint32_t>(random_() % 4), {}});
    if (!reply && how == Query::What::wait) ++findings_.cut_waiting;
    if (!reply || reply->what == Reply::What::no) return;
    if (reply->what != Reply::What::done) return findings_.add("a request failed");
    findings_.add_grant(reply->token.id);
    held_.push_back({reply->token, reply->card, reply->bytes});
    ++findings_.grants;
  }
  void renew(Held& held) {
    const auto reply = say({Query::What::renew, 0, held.token});
    if (!reply) {
      unsure_ = held.token.id;  // it may or may not have been done
    } else if (reply->what != Reply::What::done) {
      findings_.add(fmt::format("lease {} was not renewed", held.token.id));
    } else {
      held.token = reply->token;
      ++findings_.renewals;
    }
  }
  // Whether or not the response comes, we do not hold it any more.
  void release(Held& held) {
    const auto token = held.token;
    std::swap(held, held_.back());
    held_.pop_back();
    const auto reply = say({Query::What::release, 0, token});
    if (!reply) return;
    if (reply->what != Reply::What::done) findings_.add("a lease was not released");
    ++findings_.releases;
  }

  const std::string socket_;
  std::mt19937 random_;
  Findings& findings_;
  std::vector<Held> held_;
  LeaseId unsure_ = 0;
  int fd_ = -1;
};

int listen_at(const std::string& path) {
  ::unlink(path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, 64) != 0)
    throw Error(Code::internal, std::strerror(errno));
  return fd;
}

// Forked before this process has threads of its own: `starter` forks the brokers.
class Brokers {
 public:
  Brokers(std::string folder, std::string socket)
      : folder_(std::move(folder)), socket_(std::move(socket)), parent_(::getpid()) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw Error(Code::internal, std::strerror(errno));
    starter_ = ::fork();
    if (starter_ == 0) {
      ::close(ends[0]);  // so that its end is seen
      start_brokers(ends[1]);
    }
    ::close(ends[1]);
    fd_ = ends[0];
  }
  ~Brokers() {
    ::close(fd_);
    ::waitpid(starter_, nullptr, 0);
  }
  void start() { ask('s'); }
  void kill() { ask('k'); }

 private:
  void ask(char what) {
    if (!send_all(fd_, &what, 1) || !receive_all(fd_, &what, 1))
      throw Error(Code::internal, "the broker could not be started or was gone before its time");
  }
  [[noreturn]] void start_brokers(int fd) {
    pid_t child = 0;
    char what = 0;
    while (receive_all(fd, &what, 1)) {
      if (what == 's') {
        const int listener = listen_at(socket_);
        child = ::fork();
        if (child == 0) run_broker(folder_, listener, parent_);
        ::close(listener);
      } else {
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) break;  // it ended by itself
      }
      send_all(fd, &what, 1);
    }
    ::_exit(0);
  }
  const std::string folder_, socket_;
  const pid_t parent_;
  pid_t starter_ = 0;
  int fd_ = -1;
};

// Compares the store at the end with what the clients know.
void compare(const std::string& folder, const std::vector<std::unique_ptr<Client>>& clients,
             Findings& findings) {
  Store store({folder, boot_id("/proc")});
  const auto leases = store.load({Steady::now(), std::chrono::system_clock::now()}).leases;
  std::map<LeaseId, const Lease*> live;
  std::map<std::string, std::uint64_t> promised;
  for (const auto& lease : leases) {
    if (lease.state != State::held) continue;
    live[lease.id] = &lease;
    for (const auto& part : lease.parts) promised[part.uuid] += part.bytes;
  }
  for (std::size_t i = 0; i < std::size(kCardGb); ++i)
    if (promised["GPU-" + std::to_string(i)] > kCardGb[i] * kGb)
      findings.add(fmt::format("GPU {} is promised twice", i));
  for (const auto& client : clients)
    for (const auto& held : client->held())
      if (!live.contains(held.token.id))
        findings.add(fmt::format("lease {} is not in the store", held.token.id));
}

int run(int kills) {
  const TemporaryFolder folder;
  const auto socket = folder.path + "/socket";
  Brokers brokers(folder.path, socket);
  Findings findings;
  std::vector<std::unique_ptr<Client>> clients;
  for (unsigned i = 0; i < kClients; ++i)
    clients.push_back(std::make_unique<Client>(socket, i, findings));
  std::mt19937 random(7);
  const auto begin = Steady::now();
  brokers.start();
  {
    std::atomic<bool> stop{false};
    std::vector<std::jthread> threads;
    for (auto& c : clients) threads.emplace_back([&] { c->run(stop); });
    for (int i = 0; i < kills; ++i) {
      const auto enough = findings.renewals + 20;
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 80));
      while (findings.renewals < enough) std::this_thread::yield();
      brokers.kill();
      brokers.start();
    }
    stop = true;
  }
  for (auto& c : clients) c->prove();
  brokers.kill();
  compare(folder.path, clients, findings);
  fmt::print(
      "{} kills in {:.1f} s: {} grants, {} renewals, {} releases; {} queries cut, {} of them "
      "while they waited for capacity; {} leases verified after restarts\n",
      kills, seconds_between(begin, Steady::now()), findings.grants.load(),
      findings.renewals.load(), findings.releases.load(), findings.cut.load(),
      findings.cut_waiting.load(), findings.proved.load());
  for (const auto& wrong : findings.wrong) fmt::print("wrong: {}\n", wrong);
  return findings.wrong.empty() && findings.proved > 0 ? 0 : 1;
}

}  // namespace
}  // namespace sluice::broker

int main(int argc, char** argv) { return sluice::broker::run(argc > 1 ? std::atoi(argv[1]) : 10); }
