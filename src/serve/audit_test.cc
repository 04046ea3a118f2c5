#include "serve/audit.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sluice::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Audit : testing::Test {
  Audit() { std::filesystem::create_directories(folder); }
  ~Audit() override { std::filesystem::remove_all(folder); }
  std::string text(const std::string& name = "audit.log") const {
    std::ifstream file(folder + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<Json> lines(const std::string& name = "audit.log") const {
    std::ifstream file(folder + "/" + name);
    std::vector<Json> all;
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }
  const std::string folder =
      std::filesystem::temp_directory_path() / ("sluice-audit-" + std::to_string(::getpid()));
  const WallTime start = std::chrono::system_clock::now();
};

TEST_F(Audit, ALineHasPeerActionTimeAndResult) {
  AuditLog log(folder, 1 << 20);
  log.add(
      {"uid:1000", "api", "127.0.0.1", 12, "POST /v1/leases/5/revoke", R"({"reason":"x"})", "done"},
      WallTime(std::chrono::milliseconds(1700000000123)));
  const auto all = lines();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0], Json::parse(R"({"at":"2023-11-14T22:13:20.123Z","who":"uid:1000",
    "key":"api","what":"POST /v1/leases/5/revoke","address":"127.0.0.1","pid":12,"detail":"{\"reason\":\"x\"}",
    "result":"done"})"));
  struct stat mode {};
  ::stat((folder + "/audit.log").c_str(), &mode);
  EXPECT_EQ(mode.st_mode & 0777, 0600u);
}

TEST_F(Audit, TheNextRunAppendsToTheLog) {
  for (int i = 0; i < 2; ++i) AuditLog(folder, 1 << 20).add({.who = "uid:1", .what = "x"});
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(Audit, ClientTextIsEscapedIntoOneAsciiLine) {
  AuditLog log(folder, 1 << 20);
  log.add({.who = "addr:a",
           .detail = "\n{\"who\":\"uid:0\"}\x1b[2J\u009b\xff" + std::string(9999, 'x')});
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_THAT(text(), Not(HasSubstr("\x1b")));
  for (const char c : text()) EXPECT_LT(static_cast<unsigned char>(c), 0x7f);
  EXPECT_LT(text().size(), 2000u);
}

TEST_F(Audit, TheLogNeverExceedsItsSize) {
  constexpr std::uint64_t kMaxBytes = 64 << 10;
  AuditLog log(folder, kMaxBytes);
  for (int i = 0; i < 3000; ++i)
    log.add({.who = "uid:0", .what = "x", .detail = std::to_string(i), .result = "done"});
  EXPECT_LE(text().size() + text("audit.log.1").size(), kMaxBytes);
  EXPECT_GT(lines("audit.log.1").size(), 100u);
  EXPECT_EQ(lines().back()["detail"], "2999");
}

TEST_F(Audit, RefusalsAreRateLimited) {
  AuditLog log(folder, 64 << 10);
  log.add({.who = "uid:0", .what = "done before", .result = "done"}, start);
  for (int i = 0; i < 100000; ++i)
    log.add({.who = "uid:1", .what = "x", .result = "no", .refused = true},
            start + std::chrono::milliseconds(i));
  EXPECT_LT(lines().size(), 40u);
  EXPECT_EQ(lines()[0]["what"], "done before");
  log.add({.who = "uid:1", .what = "x", .result = "no", .refused = true},
          start + std::chrono::minutes(5));
  EXPECT_GT(lines().back()["refusals_left_out"], 1000);
}

TEST_F(Audit, LongTextsAreCut) {
  AuditLog log(folder, 1 << 20);
  std::string rude;
  for (int i = 0; i < 15000; ++i) rude += "\x01\xff\u00e9";
  log.add({rude, rude, rude, 1, rude, rude, rude}, start);
  EXPECT_LT(text().size(), 4500u);
  EXPECT_EQ(lines().size(), 1u);
  log.add({.who = "uid:1", .what = rude, .detail = rude, .result = rude, .refused = true}, start);
  EXPECT_LT(text().size(), 4500u + 1000);
}

TEST_F(Audit, TheRefusalsOfOnePeerHideNoOtherPeer) {
  AuditLog log(folder, 1 << 20);
  for (int i = 0; i < 1000; ++i)
    log.add({.who = "uid:" + std::to_string(i % 9), .result = "no", .refused = true}, start);
  log.add({.who = "uid:5000", .what = "seen", .result = "no", .refused = true}, start);
  EXPECT_EQ(lines().back()["what"], "seen");
  EXPECT_LT(lines().size(), 50u);
}

TEST_F(Audit, AMovedLogFileIsCreatedAnew) {
  AuditLog log(folder, 1 << 20);
  log.add({.who = "uid:1", .what = "before"});
  std::filesystem::rename(folder + "/audit.log", folder + "/mine");
  log.add({.who = "uid:1", .what = "after"});
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0]["what"], "after");
  EXPECT_EQ(lines("mine").size(), 1u);
}

TEST_F(Audit, OnAFullDiskNoPartialLineRemains) {
  AuditLog log(folder, 1 << 20);
  log.add({.who = "uid:1", .what = "before"});
  const auto size = text().size();
  struct rlimit limit {
  }, before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = size + 10;
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  log.add({.who = "uid:1", .what = "lost"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(text().size(), size);
  log.add({.who = "uid:1", .what = "after"});
  EXPECT_EQ(lines().back()["what"], "after");
}

TEST_F(Audit, ASymbolicLinkIsNotFollowed) {
  const auto other = folder + "/other";
  std::ofstream(other) << "kept";
  std::filesystem::create_symlink(other, folder + "/audit.log");
  AuditLog(folder, 1 << 20).add({.who = "uid:1", .what = "x"});
  EXPECT_EQ(text("other"), "kept");
}

}  // namespace
}  // namespace sluice::serve
