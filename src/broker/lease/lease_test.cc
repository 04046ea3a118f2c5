#include "broker/lease/lease.h"

#include <cmath>

#include "base/error.h"
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::HasSubstr;

TEST(Lease, NamesRoundTrip) {
  for (const auto p : {Priority::low, Priority::normal, Priority::high, Priority::critical})
    EXPECT_EQ(priority_from(to_string(p)), p);
  for (const auto o : {OnUnavailable::cpu, OnUnavailable::wait, OnUnavailable::fail})
    EXPECT_EQ(on_unavailable_from(to_string(o)), o);
  EXPECT_FALSE(priority_from("urgent"));
  EXPECT_FALSE(on_unavailable_from(""));
  EXPECT_EQ(to_string(State::on_cpu), "on_cpu");
  EXPECT_EQ(to_string(EndReason::holder_died), "holder_died");
  EXPECT_EQ(to_string(Enforcement::cgroup), "cgroup");
}

std::string complaint(const LeaseRequest& request) {
  try {
    check(request);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.what();
  }
  return "nothing was wrong";
}

TEST(Lease, SaysWhichFieldIsWrongAndWhatItMayBe) {
  struct Case {
    const char* says;
    void (*spoil)(LeaseRequest&);
  };
  const Case cases[] = {
      {"nothing was wrong", [](LeaseRequest&) {}},
      {"nothing was wrong", [](LeaseRequest& w) { w.agent = "Übersetzer №1"; }},
      {"agent is empty", [](LeaseRequest& w) { w.agent.clear(); }},
      {"at most 128", [](LeaseRequest& w) { w.agent.assign(10 << 20, 'x'); }},
      {"cannot be printed", [](LeaseRequest& w) { w.agent = "a\nb"; }},
      {"cannot be printed", [](LeaseRequest& w) { w.agent = "\xff\xfe"; }},
      {"cannot be printed", [](LeaseRequest& w) { w.agent = "a\u009b31mb"; }},  // a C1 control
      {"cannot be printed", [](LeaseRequest& w) { w.agent = "a\u202eb"; }},     // right to left
      {"cannot be printed", [](LeaseRequest& w) { w.model_type = "a\u2066b"; }},
      {"or are not seen", [](LeaseRequest& w) { w.agent = "a\u200bb"; }},
      {"or are not seen", [](LeaseRequest& w) { w.agent = "scout\u2060"; }},
      {"or are not seen", [](LeaseRequest& w) { w.agent = "\ufeffscout"; }},
      {"or are not seen", [](LeaseRequest& w) { w.agent = "s\u00adcout"; }},
      {"agent begins or ends with a space", [](LeaseRequest& w) { w.agent = " scout"; }},
      {"agent begins or ends with a space", [](LeaseRequest& w) { w.agent = "scout\u3000"; }},
      {"nothing was wrong", [](LeaseRequest& w) { w.agent = "scout two"; }},
      {"model_type has 129", [](LeaseRequest& w) { w.model_type.assign(129, 'm'); }},
      {"device has 200", [](LeaseRequest& w) { w.device.assign(200, 'd'); }},
      {"memory is 0", [](LeaseRequest& w) { w.bytes = 0; }},
      {"at most 64.0 TiB", [](LeaseRequest& w) { w.bytes = ~0ull; }},
      {"above the memory requested", [](LeaseRequest& w) { w.min_bytes = w.bytes + 1; }},
      {"gpus is 0", [](LeaseRequest& w) { w.gpus = 0; }},
      {"gpus is 65", [](LeaseRequest& w) { w.gpus = 65; }},
      {"more than one GPU", [](LeaseRequest& w) { w.gpus = 2, w.device = "GPU-0"; }},
      {"ttl is 0.5", [](LeaseRequest& w) { w.ttl = Seconds(0.5); }},
      {"ttl is", [](LeaseRequest& w) { w.ttl = Seconds(std::nan("")); }},
      {"one day", [](LeaseRequest& w) { w.ttl = Seconds(86401); }},
      {"wait is -1", [](LeaseRequest& w) { w.wait = Seconds(-1); }},
      {"wait is inf", [](LeaseRequest& w) { w.wait = Seconds(INFINITY); }},
  };
  for (const auto& each : cases) {
    auto request = want("scout", 8);
    each.spoil(request);
    EXPECT_THAT(complaint(request), HasSubstr(each.says));
  }
}

TEST(Lease, TextIsCutBetweenCharacters) {
  EXPECT_EQ(utf8_prefix("aé", 3), "aé");
  EXPECT_EQ(utf8_prefix("aé", 2), "a");
  EXPECT_EQ(utf8_prefix("😀", 3), "");
  EXPECT_TRUE(is_plain_text("Übersetzer №1 😀"));
  EXPECT_FALSE(is_plain_text("\x1b[31m"));
}

}  // namespace
}  // namespace sluice::broker
