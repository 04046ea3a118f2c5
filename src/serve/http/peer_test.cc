#include "serve/http/peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "broker/enforce/holder.h"

namespace sluice::serve::http {
namespace {

// Both ends of a TCP connection to itself; `to` is 127.0.0.1 seen by a socket of `family`.
struct Loop {
  explicit Loop(int family = AF_INET) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = ::socket(family, SOCK_STREAM, 0);
    const int off = 0;
    if (family == AF_INET6) ::setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    is_open = (family == AF_INET
                   ? ::bind(listener, reinterpret_cast<sockaddr*>(&own), sizeof own)
                   : ::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any)) == 0 &&
              ::listen(listener, 4) == 0;
    sockaddr_in6 bound{};
    socklen_t size = sizeof bound;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
    own.sin_port = bound.sin6_port;  // the port stands at the same place in both
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    is_open = is_open && ::connect(client, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0;
    server = ::accept(listener, nullptr, nullptr);
  }
  ~Loop() {
    for (const int fd : {listener, client, server})
      if (fd >= 0) ::close(fd);
  }
  int listener = -1, client = -1, server = -1;
  bool is_open = false;
};

TEST(Peer, APeerIsNamedByUserElseKeyElseAddress) {
  Peer peer;
  peer.address = "10.0.0.9";
  EXPECT_EQ(peer.name(), "addr:10.0.0.9");
  for (const char* own : {"127.0.0.1", "127.9.8.7", "::1"}) {
    peer.address = own;
    EXPECT_EQ(peer.name(), "addr:loopback");
  }
  peer.key = "api";
  EXPECT_EQ(peer.name(), "key:api");
  EXPECT_EQ(peer.origin(), "addr:loopback");
  peer.uid = 1000;
  EXPECT_EQ(peer.name(), "uid:1000");
  EXPECT_EQ(peer.origin(), "uid:1000");
}

// Once all users that a rootless container does not map were one user, 65534, which revoked and
// got the leases of all the others.
TEST(Peer, AnUnmappedUserOwnsNothing) {
  const auto proc =
      std::filesystem::temp_directory_path() / ("sluice-userns-" + std::to_string(::getpid()));
  std::filesystem::create_directories(proc / "self");
  std::filesystem::create_directories(proc / "sys/kernel");
  const auto own = static_cast<std::int64_t>(::geteuid());
  std::ofstream(proc / "sys/kernel/overflowuid") << own << "\n";
  const auto map = [&](const char* lines) { std::ofstream(proc / "self/uid_map") << lines; };
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Loop loop;
  map("         0          0 4294967295\n");
  EXPECT_EQ(overflow_uid(proc), std::nullopt);
  EXPECT_EQ(unix_peer(ends[0], proc).uid, own);
  EXPECT_EQ(local_user(loop.server, true, proc).uid, own);
  map("         0       1000          1\n         1     100000      65536\n");
  EXPECT_EQ(overflow_uid(proc), own);
  EXPECT_EQ(unix_peer(ends[0], proc).uid, broker::kUnmappedUid);
  EXPECT_EQ(local_user(loop.server, true, proc).uid, broker::kUnmappedUid);
  Peer peer;
  peer.uid = broker::kUnmappedUid, peer.key = "api";
  EXPECT_EQ(peer.name(), "uid:unmapped");
  EXPECT_EQ(peer.origin(), "uid:unmapped");
  for (const int fd : ends) ::close(fd);
  std::filesystem::remove_all(proc);
}

TEST(Peer, AddressesOfOneNetworkAreOnePeer) {
  const auto at = [](std::string address) {
    Peer peer;
    peer.address = std::move(address);
    return peer.origin();
  };
  EXPECT_EQ(at("2001:db8::1"), "addr:2001:db8::/64");
  EXPECT_EQ(at("2001:db8::ffff:2"), at("2001:db8::1"));
  EXPECT_NE(at("2001:db8:0:1::1"), at("2001:db8::1"));
  EXPECT_NE(at("10.0.0.9"), at("10.0.0.8"));
}

// The source may be any address of this machine's.
TEST(Peer, AConnectionFromAnotherLocalAddressHasItsUser) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0),
            client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{}, from{};
  to.sin_family = from.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ifaddrs* all = nullptr;
  ASSERT_EQ(::getifaddrs(&all), 0);
  for (const auto* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    const auto address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    if (ntohl(address.s_addr) >> 24 != IN_LOOPBACKNET) from.sin_addr = address;
  }
  ::freeifaddrs(all);
  if (from.sin_addr.s_addr == 0) GTEST_SKIP() << "this machine has no other address";
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  socklen_t size = sizeof to;
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&to), &size), 0);
  ASSERT_EQ(::bind(client, reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
  ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const int server = ::accept(listener, nullptr, nullptr);
  EXPECT_EQ(local_user(server, true).uid, static_cast<std::int64_t>(::geteuid()));
  for (const int fd : {listener, client, server}) ::close(fd);
}

TEST(Peer, TheUserOfALocalTcpConnectionIsFound) {
  const Loop loop;
  EXPECT_EQ(tcp_peer(loop.server).address, "127.0.0.1");
  EXPECT_EQ(local_user(loop.server, true).uid, static_cast<std::int64_t>(::geteuid()));
}

TEST(Peer, TheUserIsFoundOverADualStackSocket) {
  const Loop loop(AF_INET6);
  if (!loop.is_open) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(tcp_peer(loop.server).address, "127.0.0.1");
  EXPECT_EQ(local_user(loop.server, true).uid, static_cast<std::int64_t>(::geteuid()));
}

TEST(Peer, AClosedConnectionHasNoUserRatherThanRoot) {
  Loop loop;
  EXPECT_FALSE(local_user(loop.server, true).has_hung_up);
  ::shutdown(loop.client, SHUT_WR);
  EXPECT_EQ(local_user(loop.server, true).uid, static_cast<std::int64_t>(::geteuid()));
  ::close(std::exchange(loop.client, -1));
  const auto closed = local_user(loop.server, true);
  EXPECT_EQ(closed.uid, -1);
  EXPECT_TRUE(closed.has_hung_up);
}

struct Closing {
  int fd;
  ~Closing() { ::close(fd); }
};

// A client on another machine has no socket here; one that is removed without a packet to the
// server stands for it. It chose the port on which a user of this machine listens.
TEST(Peer, AListenerOnTheClientsPortIsNotTheClient) {
  const int on = 1;
  for (int i = 0; i < 50; ++i) {
    Loop loop;
    ASSERT_TRUE(loop.is_open);
    sockaddr_in client{};
    socklen_t size = sizeof client;
    ASSERT_EQ(::getsockname(loop.client, reinterpret_cast<sockaddr*>(&client), &size), 0);
    if (::setsockopt(loop.client, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
      GTEST_SKIP() << "a socket cannot be removed silently here: " << std::strerror(errno);
    ::close(std::exchange(loop.client, -1));
    const Closing listener{::socket(AF_INET, SOCK_STREAM, 0)};
    ASSERT_EQ(::setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    client.sin_addr.s_addr = htonl(INADDR_ANY);
    if (::bind(listener.fd, reinterpret_cast<const sockaddr*>(&client), size) != 0)
      continue;  // another program has the port as well
    ASSERT_EQ(::listen(listener.fd, 1), 0);
    EXPECT_EQ(local_user(loop.server, true).uid, -1);
    return;
  }
  FAIL() << "no port was free";
}

TEST(Peer, OnlyAnOpenSocketInTheTableHasAUser) {
  const std::string local = "0100007F:E00E", remote = "0100007F:A029";
  const std::string line =
      "   2: 0100007F:E00E 0100007F:A029 01 00000000:00000000 00:00000000 "
      "00000000  1000        0 30642 2 000000006da173e0 20 0 0 10 -1";
  EXPECT_EQ(uid_in_line(line, local, remote), 1000);
  EXPECT_EQ(uid_in_line(line, remote, local), std::nullopt);
  auto closed = line;
  closed.replace(closed.find("30642"), 5, "0    ");
  EXPECT_EQ(uid_in_line(closed, local, remote), std::nullopt);
  for (const auto* bad : {"", "   ", "2: 0100007F:E00E 0100007F:A029", "  sl  local_address rem_"})
    EXPECT_EQ(uid_in_line(bad, local, remote), std::nullopt) << bad;
}

// A child connects, gives the connection away and ends: its number may be another's by the time
// a request comes.
TEST(Peer, AnEndedProcessOverTheUnixSocketHasNoPid) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("sluice-peer-test-" + std::to_string(::getpid()) + ".sock");
  std::filesystem::remove(path);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::strncpy(at.sun_path, path.c_str(), sizeof at.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  const int client = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const auto child = ::fork();
  if (child == 0) ::_exit(::connect(client, reinterpret_cast<sockaddr*>(&at), sizeof at));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const int server = ::accept(listener, nullptr, nullptr);
  // A process of the same number came later: the folder shows one, the kernel knows better.
  const auto proc =
      std::filesystem::temp_directory_path() / ("sluice-peer-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(proc / std::to_string(child));
  std::ofstream(proc / std::to_string(child) / "stat") << std::ifstream("/proc/self/stat").rdbuf();
  const auto peer = unix_peer(server, proc);
  EXPECT_EQ(peer.uid, static_cast<std::int64_t>(::geteuid()));
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  constexpr int kPeerPidfd = 77;
  const bool can_tell =
      ::getsockopt(server, SOL_SOCKET, kPeerPidfd, &pidfd, &size) == 0 || errno != ENOPROTOOPT;
  EXPECT_TRUE(!can_tell || peer.pid == 0) << peer.pid;
  EXPECT_EQ(unix_peer(server).pid, 0);
  for (const int fd : {listener, client, server}) ::close(fd);
  std::filesystem::remove_all(proc);
  std::filesystem::remove(path);
}

TEST(Peer, ARunningProcessOverTheUnixSocketKeepsItsPid) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  auto peer = unix_peer(ends[0]);
  forget_ended(peer, ends[0]);
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_NE(peer.start_time, 0u);
  for (const int fd : ends) ::close(fd);
}

TEST(Peer, AReusedPidIsDetectedByTheStartTime) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const auto peer = unix_peer(ends[0]);
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_EQ(peer.uid, static_cast<std::int64_t>(::geteuid()));
  EXPECT_EQ(peer.start_time, broker::process_stat(::getpid(), "/proc")->start_time);
  for (const int fd : ends) ::close(fd);
}

}  // namespace
}  // namespace sluice::serve::http
