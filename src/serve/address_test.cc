#include "serve/address.h"

#include <gtest/gtest.h>

namespace sluice::serve {
namespace {

TEST(SplitHost, NameAndPortAreSplit) {
  struct Case {
    const char *text, *name;
    std::optional<std::uint16_t> port;
  };
  for (const auto& [text, name, port] :
       {Case{"localhost", "localhost", {}}, Case{"gpu-1.lan:8000", "gpu-1.lan", 8000},
        Case{"10.0.0.1:80", "10.0.0.1", 80}, Case{"[::1]", "::1", {}},
        Case{"[fe80::1]:65535", "fe80::1", 65535}, Case{"my_box.:", "my_box.", {}}}) {
    const auto host = split_host(text);
    ASSERT_TRUE(host) << text;
    EXPECT_EQ(host->name, name);
    EXPECT_EQ(host->port, port);
  }
}

TEST(SplitHost, InvalidHostsAndPortsAreRefused) {
  for (const auto* bad :
       {"",          ":80",       "a b",         "a:b",        "a:0",       "a:65536",
        "a:-1",      "a:80:80",   "a:80 ",       "::1",        "[::1",      "[]",
        "[::1]80",   "[::1]:x",   "[localhost]", "[10.0.0.1]", "user@host", "http://host",
        "host/path", "*.example", ".host",       "a..b"})
    EXPECT_FALSE(split_host(bad)) << bad;
  EXPECT_FALSE(split_host(std::string(254, 'a')));
}

}  // namespace
}  // namespace sluice::serve
