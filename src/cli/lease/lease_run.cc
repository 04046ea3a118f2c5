#include "cli/lease/lease_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/lease/lease_report.h"

namespace sluice::cli {

namespace {

constexpr double kCallTimeout_s = 10;
constexpr double kLongest_s = 1e9;  // that is shown
constexpr auto kReconnect = std::chrono::seconds(1);

// Signals that are passed on or waited for are blocked while it lives; threads started meanwhile
// have it blocked too.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
      sigaddset(&set_, s);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  const sigset_t& before() const noexcept { return before_; }
  int next(siginfo_t& info) const { return sigwaitinfo(&set_, &info); }

 private:
  sigset_t set_{}, before_{};
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> made;
  for (auto& text : texts) made.push_back(text.data());
  made.push_back(nullptr);
  return made;
}

// Runs in the child process, with async-signal-safe calls only. The pipe reports why the command
// could not be started. The command must not outlive its lease, so it gets a signal when we end.
[[noreturn]] void become(char* const* argv, char* const* envp, const sigset_t& mask, int failed) {
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  execvpe(argv[0], argv, envp);
  const int why = errno;
  (void)!write(failed, &why, sizeof why);
  _exit(127);
}

// Starts the command; its number, or -errno.
pid_t start(std::vector<std::string> command, const std::map<std::string, std::string>& environment,
            const sigset_t& mask) {
  std::vector<std::string> pairs;
  for (const auto& [name, value] : environment) pairs.push_back(name + "=" + value);
  const auto argv = pointers(command), envp = pointers(pairs);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
  const pid_t pid = fork();
  if (pid == 0) become(argv.data(), envp.data(), mask, ends[1]);
  const int fork_failed = pid < 0 ? errno : 0;
  close(ends[1]);
  int why = 0;
  const bool has_failed = pid > 0 && read(ends[0], &why, sizeof why) == sizeof why;
  close(ends[0]);
  if (fork_failed != 0) return -fork_failed;
  if (has_failed) waitpid(pid, nullptr, 0);
  return has_failed ? -why : pid;
}

// Statuses that no further renewal can fix; anything else (too slow, a server that starts) is tried
// again.
bool is_over(int status) { return status == 403 || status == 404 || status == 410; }

// What renewals need of the answer. Read before the command starts: an odd answer starts nothing.
struct Terms {
  explicit Terms(const Json& answer)
      : id(answer.value("lease_id", "")),
        token(answer.value("token", "")),
        period(Seconds(std::clamp(answer.value("ttl_s", 60.0) / 3, 0.3, 86400.0))) {}

  std::string id, token;
  Seconds period;
};

// Keeps the lease and signals the command when it must yield or is lost. The command is not waited
// for while this lives, so its number is its own.
class Keeper {
 public:
  Keeper(const Terms& terms, LeaseServer& server, const ServerAddress& address, pid_t command,
         std::ostream& err)
      : id_(terms.id),
        target_("/v1/leases/" + id_),
        period_(terms.period),
        command_(command),
        server_(server),
        events_(address),
        err_(err),
        token_(terms.token) {
    if (token_.empty()) return;
    renewing_ = std::jthread([this](const std::stop_token& stop) { renew_until(stop); });
    listening_ = std::jthread([this](const std::stop_token& stop) { listen_until(stop); });
  }

  // Must run before the last call over the server: nothing else uses it afterwards.
  ~Keeper() {
    if (token_.empty()) return;
    renewing_.request_stop(), listening_.request_stop();
    events_.interrupt().now();
    renewing_.join(), listening_.join();
    if (!is_lost_) server_.call("DELETE", target_, Json{{"token", token_}}, kCallTimeout_s);
  }

 private:
  void renew_until(const std::stop_token& stop) {
    while (!is_lost_ && pause(stop, period_)) {
      auto answer = renew();
      if (answer.status == 409) answer = renew();  // with the token that came with the 409
      if (is_over(answer.status)) lose("it is over");
    }
  }

  HttpAnswer renew() {
    auto answer = server_.call("POST", target_ + "/renew", Json{{"token", token_}}, kCallTimeout_s);
    const auto json = Json::parse(answer.body, nullptr, false);
    if (!json.is_object()) return answer;
    try {
      if (json.contains("token")) token_ = json["token"].get<std::string>();
      if (json.contains("yield_in_s")) yield(json["yield_in_s"].get<double>(), "");
    } catch (const Json::exception&) {
      answer.status = 0;  // no answer of a Sluice server: the renewal failed, and is tried again
    }
    return answer;
  }

  // "0-0" is before the first event: what happened since the grant is not missed.
  void listen_until(const std::stop_token& stop) {
    const auto target = "/v1/events?interval=0&lease=" + id_;
    do {
      try {
        events_.listen(target + (events_.last_event_id().empty() ? "&last_event_id=0-0" : ""),
                       [&](std::string_view type, const std::string& json) {
                         hear(type, Json::parse(json, nullptr, false));
                         return !stop.stop_requested();
                       });
      } catch (const std::exception&) {  // the renewals tell the same, only later
      }
    } while (!is_lost_ && pause(stop, kReconnect));
  }

  void hear(std::string_view type, const Json& event) {
    if (type == "lease_yield")
      yield(event.value("yield_in_s", 0.0), event.value("reason", ""));
    else if (type == "lease_ended")
      lose(event.value("reason", "it is over"));
    else if (type == "lease_capacity")
      say("there is capacity on a GPU now; start the command again to use it");
  }

  void yield(double within_s, const std::string& why) {
    if (has_yielded_.exchange(true)) return;
    say(fmt::format("lease {} is requested back within {}{}; SIGTERM to the command", id_,
                    human_duration(std::clamp(within_s, 0.0, kLongest_s)),
                    why.empty() ? "" : " (" + why + ")"));
    ::kill(command_, SIGTERM);
  }

  void lose(const std::string& why) {
    if (is_lost_.exchange(true)) return;
    say(fmt::format("lease {} is lost: {}; SIGTERM to the command", id_, why));
    ::kill(command_, SIGTERM);
  }

  // The lease's id and the reason come from the server.
  void say(const std::string& text) {
    const Lock lock(mutex_);
    err_ << "sluice: " << printable(text) << std::endl;
  }

  // False when it is time to end.
  bool pause(const std::stop_token& stop, Seconds time) {
    const Lock lock(mutex_);
    woken_.wait_for(mutex_, stop, time, [] { return false; });
    return !stop.stop_requested();
  }

  const std::string id_, target_;
  const Seconds period_;
  const pid_t command_;
  LeaseServer& server_;  // of the renewing thread
  LeaseServer events_;   // of the listening thread
  std::ostream& err_;
  std::string token_;  // of the renewing thread
  std::atomic<bool> has_yielded_{false}, is_lost_{false};
  Mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread renewing_, listening_;
};

// Waits until the command has ended, which stays a zombie. The kernel sends Ctrl-C to the whole
// process group, so it reaches the command without us.
void wait_for_end(pid_t command, const Signals& signals) {
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(command), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    siginfo_t info{};
    const int signal = signals.next(info);
    const bool is_from_a_process = info.si_code <= 0;
    if (signal > 0 && signal != SIGCHLD && is_from_a_process) ::kill(command, signal);
    ended = {};
  }
}

int exit_code(pid_t command) {
  int status = 0;
  while (waitpid(command, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int run_under_lease(const std::vector<std::string>& command, const Json& answer,
                    LeaseServer& server, const ServerAddress& address, Io& io) {
  auto environment = io.environment;
  for (const auto& [name, value] : lease_environment(answer)) environment[name] = value;
  const Terms terms(answer);
  const Signals signals;
  const auto pid = start(command, environment, signals.before());
  if (pid < 0) {
    io.err << "sluice: " << command[0] << ": " << std::strerror(-pid) << "\n";
    return pid == -ENOENT ? 127 : 126;  // the lease ends with this process
  }
  {
    const Keeper keeper(terms, server, address, pid, io.err);
    wait_for_end(pid, signals);
  }
  return exit_code(pid);
}

}  // namespace sluice::cli
