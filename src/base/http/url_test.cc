#include "base/http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

std::string shown(std::string_view text) {
  const Url u = parse_url(text);
  return std::string(u.tls ? "tls " : "") + u.host + " " + u.port + " " + u.target + " " +
         u.host_header();
}

TEST(Url, IsParsedIntoItsParts) {
  EXPECT_EQ(shown("http://example.com"), "example.com 80 / example.com");
  EXPECT_EQ(shown("https://example.com/a/b?c=d#e"), "tls example.com 443 /a/b?c=d example.com");
  EXPECT_EQ(shown("HTTP://h:8080/x"), "h 8080 /x h:8080");
  EXPECT_EQ(shown("https://h:443"), "tls h 443 / h");
  EXPECT_EQ(shown("http://h?q"), "h 80 /?q h");
  EXPECT_EQ(shown("http://[::1]:9/x"), "::1 9 /x [::1]:9");
  EXPECT_EQ(shown("https://[fe80::1]"), "tls fe80::1 443 / [fe80::1]");
}

TEST(Url, TheLoggedFormHasNoPath) {
  EXPECT_EQ(parse_url("https://hooks.example.com/T0/B0/secret").origin(),
            "https://hooks.example.com");
}

TEST(Url, NamesEachError) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"example.com/x", "must begin with http:// or https://"},
      {"ftp://example.com", "must begin with http:// or https://"},
      {"file:///etc/passwd", "must begin with http:// or https://"},
      {"http://", "no host"},
      {"http:///x", "no host"},
      {"http://:80/", "no host"},
      {"http://h:0/", "port '0'"},
      {"http://h:99999", "port '99999'"},
      {"http://h:8o", "port '8o'"},
      {"http://h:", "port ''"},
      {"http://[::1/", "'[' without ']'"},
      {"http://[::1]x/", "only a port may follow"},
      {"http://ann:pw@h/", "user name or password"},
      {"http://h/a b", "white space"},
      {"http://h/\r\nX: y", "white space"},
  };
  for (const auto& [text, what] : cases) {
    try {
      parse_url(text);
      FAIL() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::invalid_argument);
      EXPECT_THAT(e.what(), testing::HasSubstr(what)) << text;
    }
  }
}

}  // namespace
}  // namespace sluice
