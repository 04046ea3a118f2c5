// The identity of the other end of a connection, as the kernel reports it. A client's own claims
// count only with a key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::serve::http {

struct Peer {
  std::int64_t pid = 0;          // that connected to the Unix socket; 0: unknown
  std::uint64_t start_time = 0;  // of pid when it connected: numbers are used again
  std::int64_t uid = -1;         // -1: not known, or not looked up; see local_uid. kUnmappedUid
  std::string address;           // of TCP, without the port; empty over the Unix socket
  std::string_view key;          // name of the key it showed: "api", "admin"; empty: none
  bool is_admin = false;         // may change what belongs to others

  // "uid:N" ("uid:unmapped"), else "key:NAME", else origin(): whose leases are counted as one, and
  // who is in the audit log. A key says who asks only where the kernel does not. A subordinate id
  // is its owner here (subordinate_ids.h); what is somebody's own goes by `uid`.
  std::string name() const;

  // "uid:N", else "addr:A": whom all other limits count as one. Of IPv6 the network, which has
  // more addresses than can be counted; all of loopback is one address: a local client that hangs
  // up before it is looked up is nobody's, and may come from any of sixteen million.
  std::string origin() const;
};

// The user that the kernel shows in the place of every one that is not mapped into this user
// namespace (a rootless container, say); nothing where all users are. Such a peer has kUnmappedUid:
// it is nobody's own, and shares the limits of all the others.
std::optional<std::int64_t> overflow_uid(const std::string& proc = "/proc");

// The other end of a connected Unix socket, by SO_PEERCRED. Its pid is 0 where the process
// has ended since it connected.
Peer unix_peer(int socket, const std::string& proc = "/proc");

// Forgets the process where it has ended since, as far as the kernel can tell (Linux 6.5). A start
// time alone does not tell apart two processes that got one number within a clock tick, 10 ms.
void forget_ended(Peer& peer, int socket);

// The other end of a connected TCP socket: its address alone.
Peer tcp_peer(int socket);

struct LocalUser {
  std::int64_t uid = -1;     // -1: of another machine, has hung up, or cannot be determined
  bool has_hung_up = false;  // a client of this machine that holds its socket no more: it may have
                             // been any user, and hears no answer
};

// The user of the other end of a TCP connection from this machine, whatever address it comes
// from. One query to the kernel (NETLINK_SOCK_DIAG) whatever the number of sockets; where there is
// none of that and `may_read_table`, /proc/net/tcp is read, which takes a millisecond for a
// thousand sockets.
LocalUser local_user(int socket, bool may_read_table, const std::string& proc = "/proc");

// A line of /proc/net/tcp or tcp6: the user of an open socket with these ends, each
// "ADDRESS:PORT" in hexadecimal as the table writes it; nothing for any other line. A socket
// that nobody has open any more is written as root's there, and is no one's here.
std::optional<std::int64_t> uid_in_line(std::string_view line, std::string_view local,
                                        std::string_view remote);

}  // namespace sluice::serve::http
