#include "serve/http/peer.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>

#include "broker/enforce/holder.h"
#include "serve/http/subordinate_ids.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5
#endif

namespace sluice::serve::http {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// One end of a TCP connection; an IPv4-mapped IPv6 address is stored as IPv4.
struct End {
  int family = AF_UNSPEC;
  std::array<std::uint32_t, 4> address{};  // in network order; IPv4 in the first
  std::uint16_t port = 0;                  // in network order
};

End end_of(const sockaddr_storage& from) {
  End end;
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    end.family = AF_INET, end.port = v4.sin_port, end.address[0] = v4.sin_addr.s_addr;
  } else if (from.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
    end.family = AF_INET6, end.port = v6.sin6_port;
    std::memcpy(end.address.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) end = {AF_INET, {end.address[3], 0, 0, 0}, end.port};
  }
  return end;
}

struct Ends {
  End ours, theirs;
};

std::optional<Ends> ends_of(int socket) {
  sockaddr_storage ours{}, theirs{};
  socklen_t size = sizeof ours, size_of_theirs = sizeof theirs;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&ours), &size) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &size_of_theirs) != 0)
    return std::nullopt;
  Ends ends{end_of(ours), end_of(theirs)};
  if (ends.ours.family == AF_UNSPEC || ends.ours.family != ends.theirs.family) return std::nullopt;
  return ends;
}

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 query;
};

DiagRequest make_request(const Ends& ends, int family) {
  DiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  thread_local std::uint32_t asked = 0;
  request.header.nlmsg_seq = ++asked;
  auto& query = request.query;
  query.sdiag_family = static_cast<std::uint8_t>(family);
  query.sdiag_protocol = IPPROTO_TCP;
  query.idiag_states = ~0u;
  query.id.idiag_sport = ends.theirs.port, query.id.idiag_dport = ends.ours.port;
  std::memcpy(query.id.idiag_src, ends.theirs.address.data(), sizeof query.id.idiag_src);
  std::memcpy(query.id.idiag_dst, ends.ours.address.data(), sizeof query.id.idiag_dst);
  query.id.idiag_cookie[0] = query.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

enum class Found { yes, no, cannot_tell };

using DiagAnswer = std::array<char, 1024>;

// Sends the request and receives its answer. Each thread keeps one socket: it saves 4 us for each
// question, and a lack of files hides no user. A socket on which anything failed is replaced, for
// it may hold a late answer.
const nlmsghdr* exchange_with_kernel(const DiagRequest& request, DiagAnswer& answer) {
  thread_local std::optional<Descriptor> netlink;
  if (!netlink)
    netlink.emplace(
        ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  const int fd = netlink->get();
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (fd >= 0 && ::send(fd, &request, sizeof request, 0) == sizeof request) {
    const auto n = ::recv(fd, answer.data(), answer.size(), 0);
    if (n >= static_cast<ssize_t>(sizeof *header) && NLMSG_OK(header, static_cast<unsigned>(n)) &&
        header->nlmsg_seq == request.header.nlmsg_seq)
      return header;
  }
  netlink.reset();
  return nullptr;
}

// Returns the socket whose local end is the remote end of ours.
Found ask_kernel(const Ends& ends, std::int64_t& uid) {
  alignas(nlmsghdr) DiagAnswer answer;
  const auto* header = exchange_with_kernel(make_request(ends, ends.theirs.family), answer);
  if (header == nullptr) return Found::cannot_tell;
  if (header->nlmsg_type == NLMSG_ERROR) {
    const auto* error = reinterpret_cast<const nlmsgerr*>(NLMSG_DATA(header));
    return error->error == -ENOENT && header->nlmsg_len >= NLMSG_LENGTH(sizeof *error)
               ? Found::no
               : Found::cannot_tell;
  }
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      header->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg)))
    return Found::cannot_tell;
  const auto* socket = reinterpret_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  // Without a connected socket the kernel answers with one that listens on the port, at any address
  // of this machine: a client elsewhere chooses its port, so that would name a user of its choice.
  if (socket->idiag_state == TCP_LISTEN || socket->id.idiag_sport != ends.theirs.port ||
      socket->id.idiag_dport != ends.ours.port)
    return Found::no;
  if (socket->idiag_inode == 0) return Found::no;  // closed by its owner: written as root's
  uid = socket->idiag_uid;
  return Found::yes;
}

// The form of /proc/net/tcp: each word of the address in host byte order.
std::string in_table(const End& end, bool as_v6) {
  std::string text;
  if (as_v6 && end.family == AF_INET)
    text = fmt::format("{:08X}{:08X}{:08X}{:08X}", 0, 0, htonl(0xFFFF), end.address[0]);
  else
    for (int i = 0; i < (end.family == AF_INET ? 1 : 4); ++i)
      text += fmt::format("{:08X}", end.address[static_cast<std::size_t>(i)]);
  return text + fmt::format(":{:04X}", ntohs(end.port));
}

Found read_table(const Ends& ends, bool as_v6, const std::string& proc, std::int64_t& uid) {
  const auto local = in_table(ends.theirs, as_v6), remote = in_table(ends.ours, as_v6);
  std::ifstream table(proc + (as_v6 ? "/net/tcp6" : "/net/tcp"));
  std::string line;
  if (!std::getline(table, line)) return Found::cannot_tell;
  while (std::getline(table, line))
    if (const auto found = uid_in_line(line, local, remote)) {
      uid = *found;
      return Found::yes;
    }
  return Found::no;
}

// An IPv4 client may be in the table of IPv6, with a mapped address.
Found read_tables(const Ends& ends, const std::string& proc, std::int64_t& uid) {
  const bool is_v4 = ends.theirs.family == AF_INET;
  const auto in_v4 = is_v4 ? read_table(ends, false, proc, uid) : Found::no;
  if (in_v4 == Found::yes) return in_v4;
  const auto in_v6 = read_table(ends, true, proc, uid);
  if (in_v6 == Found::cannot_tell && is_v4) return in_v4;  // no IPv6 here
  return in_v4 == Found::cannot_tell && in_v6 == Found::no ? in_v4 : in_v6;
}

// Returns whether the address of the other end is one of this machine: only such can be bound. Yes
// where that cannot be tried for lack of files, which a local user may cause.
bool is_of_this_machine(int socket) {
  sockaddr_storage theirs{};
  socklen_t size = sizeof theirs;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &size) != 0) return false;
  if (theirs.ss_family == AF_INET) reinterpret_cast<sockaddr_in&>(theirs).sin_port = 0;
  if (theirs.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(theirs).sin6_port = 0;
  const Descriptor probe(::socket(theirs.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe.get() < 0 ||
         ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&theirs), size) == 0;
}

// The n-th word, from 0; empty when there are fewer.
std::string_view nth_word(std::string_view text, int n) {
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const auto word = text.substr(0, text.find(' '));
    if (n-- == 0 || word.empty()) return word;
    text.remove_prefix(word.size());
  }
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr std::int64_t kAllUsers = 4294967295;

// Lines of "first inside, first outside, how many".
bool maps_all_users(std::istream& map) {
  std::int64_t inside = 0, outside = 0, count = 0, sum = 0;
  while (map >> inside >> outside >> count) sum += count;
  return sum == 0 || sum >= kAllUsers;  // 0: it cannot be read
}

// The uid reported by the kernel, or kUnmappedUid. A uid map is written once, before programs run
// under it.
std::int64_t known_uid(std::int64_t uid, const std::string& proc) {
  static const auto here = overflow_uid();
  const auto overflow = proc == "/proc" ? here : overflow_uid(proc);
  return uid == overflow ? broker::kUnmappedUid : uid;
}

// Returns whether the process that connected still runs, where the kernel reports it (Linux 6.5):
// then data just read under its pid belongs to that process.
bool still_runs(int socket) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0)
    return errno == ENOPROTOOPT;
  const Descriptor process(pidfd);
  pollfd ended{pidfd, POLLIN, 0};
  return ::poll(&ended, 1, 0) == 0;
}

}  // namespace

std::optional<std::int64_t> overflow_uid(const std::string& proc) {
  constexpr std::int64_t kUsual = 65534;
  std::ifstream map(proc + "/self/uid_map"), overflow(proc + "/sys/kernel/overflowuid");
  if (maps_all_users(map)) return std::nullopt;
  std::int64_t uid = 0;
  return overflow >> uid ? uid : kUsual;
}

std::string Peer::name() const {
  return uid == -1 && !key.empty() ? "key:" + std::string(key) : origin();
}

std::string Peer::origin() const {
  if (uid >= 0) return "uid:" + std::to_string(SubordinateIds::here().owner(uid));
  if (uid == broker::kUnmappedUid) return "uid:unmapped";
  if (address.starts_with("127.") || address == "::1") return "addr:loopback";
  in6_addr network{};
  if (::inet_pton(AF_INET6, address.c_str(), &network) != 1) return "addr:" + address;
  std::fill(std::begin(network.s6_addr) + 8, std::end(network.s6_addr), std::uint8_t{0});
  char text[INET6_ADDRSTRLEN];
  return "addr:" + std::string(::inet_ntop(AF_INET6, &network, text, sizeof text)) + "/64";
}

Peer unix_peer(int socket, const std::string& proc) {
  Peer peer;
  ucred peercred{};
  socklen_t size = sizeof peercred;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peercred, &size) != 0) return peer;
  peer.uid = known_uid(static_cast<std::int64_t>(peercred.uid), proc);
  const auto stat = broker::process_stat(peercred.pid, proc);
  if (!stat || !still_runs(socket)) return peer;
  peer.pid = peercred.pid;
  peer.start_time = stat->start_time;
  return peer;
}

void forget_ended(Peer& peer, int socket) {
  if (peer.pid != 0 && !still_runs(socket)) peer.pid = 0, peer.start_time = 0;
}

Peer tcp_peer(int socket) {
  Peer peer;
  const auto ends = ends_of(socket);
  if (!ends) return peer;
  char text[INET6_ADDRSTRLEN];
  if (::inet_ntop(ends->theirs.family, ends->theirs.address.data(), text, sizeof text) != nullptr)
    peer.address = text;
  return peer;
}

LocalUser local_user(int socket, bool may_read_table, const std::string& proc) {
  const auto ends = ends_of(socket);
  if (!ends) return {.has_hung_up = true};  // reset
  std::int64_t uid = -1;
  auto found = ask_kernel(*ends, uid);
  if (found == Found::cannot_tell && may_read_table) found = read_tables(*ends, proc, uid);
  if (found == Found::yes) return {.uid = known_uid(uid, proc)};
  return {.has_hung_up = found == Found::no && is_of_this_machine(socket)};
}

std::optional<std::int64_t> uid_in_line(std::string_view line, std::string_view local,
                                        std::string_view remote) {
  constexpr int kLocal = 1, kRemote = 2, kUid = 7, kInode = 9;
  if (nth_word(line, kLocal) != local || nth_word(line, kRemote) != remote) return std::nullopt;
  const auto uid = number(nth_word(line, kUid)), inode = number(nth_word(line, kInode));
  if (!uid || !inode || *inode == 0) return std::nullopt;
  return uid;
}

}  // namespace sluice::serve::http
