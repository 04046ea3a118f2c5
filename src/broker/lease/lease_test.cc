#include "broker/lease/lease.h"

#include <cmath>

#include "base/error.h"
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::HasSubstr;

TEST(Lease, NamesReadBackAsWritten) {
  for (const auto p : {Priority::low, Priority::normal, Priority::high, Priority::critical})
    EXPECT_EQ(priority_named(to_string(p)), p);
  for (const auto o : {OnUnavailable::cpu, OnUnavailable::wait, OnUnavailable::fail})
    EXPECT_EQ(on_unavailable_named(to_string(o)), o);
  EXPECT_FALSE(priority_named("urgent"));
  EXPECT_FALSE(on_unavailable_named(""));
  EXPECT_EQ(to_string(State::on_cpu), "on_cpu");
  EXPECT_EQ(to_string(Ending::holder_died), "holder_died");
  EXPECT_EQ(to_string(Enforcement::cgroup), "cgroup");
}

std::string complaint(const Wanted& wanted) {
  try {
    check(wanted);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.what();
  }
  return "nothing was wrong";
}

TEST(Lease, SaysWhichFieldIsWrongAndWhatItMayBe) {
  struct Case {
    const char* says;
    void (*spoil)(Wanted&);
  };
  const Case cases[] = {
      {"nothing was wrong", [](Wanted&) {}},
      {"nothing was wrong", [](Wanted& w) { w.agent = "Übersetzer №1"; }},
      {"agent is empty", [](Wanted& w) { w.agent.clear(); }},
      {"at most 128", [](Wanted& w) { w.agent.assign(10 << 20, 'x'); }},
      {"cannot be printed", [](Wanted& w) { w.agent = "a\nb"; }},
      {"cannot be printed", [](Wanted& w) { w.agent = "\xff\xfe"; }},
      {"cannot be printed", [](Wanted& w) { w.agent = "a\u009b31mb"; }},  // a C1 control
      {"cannot be printed", [](Wanted& w) { w.agent = "a\u202eb"; }},     // right to left
      {"cannot be printed", [](Wanted& w) { w.model_type = "a\u2066b"; }},
      {"or are not seen", [](Wanted& w) { w.agent = "a\u200bb"; }},
      {"or are not seen", [](Wanted& w) { w.agent = "scout\u2060"; }},
      {"or are not seen", [](Wanted& w) { w.agent = "\ufeffscout"; }},
      {"or are not seen", [](Wanted& w) { w.agent = "s\u00adcout"; }},
      {"agent begins or ends with a space", [](Wanted& w) { w.agent = " scout"; }},
      {"agent begins or ends with a space", [](Wanted& w) { w.agent = "scout\u3000"; }},
      {"nothing was wrong", [](Wanted& w) { w.agent = "scout two"; }},
      {"model_type has 129", [](Wanted& w) { w.model_type.assign(129, 'm'); }},
      {"device has 200", [](Wanted& w) { w.device.assign(200, 'd'); }},
      {"memory is 0", [](Wanted& w) { w.bytes = 0; }},
      {"at most 64.0 TiB", [](Wanted& w) { w.bytes = ~0ull; }},
      {"above the memory asked for", [](Wanted& w) { w.min_bytes = w.bytes + 1; }},
      {"gpus is 0", [](Wanted& w) { w.gpus = 0; }},
      {"gpus is 65", [](Wanted& w) { w.gpus = 65; }},
      {"more than one GPU", [](Wanted& w) { w.gpus = 2, w.device = "GPU-0"; }},
      {"ttl is 0.5", [](Wanted& w) { w.ttl = Seconds(0.5); }},
      {"ttl is", [](Wanted& w) { w.ttl = Seconds(std::nan("")); }},
      {"one day", [](Wanted& w) { w.ttl = Seconds(86401); }},
      {"wait is -1", [](Wanted& w) { w.wait = Seconds(-1); }},
      {"wait is inf", [](Wanted& w) { w.wait = Seconds(INFINITY); }},
  };
  for (const auto& each : cases) {
    auto wanted = want("scout", 8);
    each.spoil(wanted);
    EXPECT_THAT(complaint(wanted), HasSubstr(each.says));
  }
}

TEST(Lease, TextIsCutBetweenCharacters) {
  EXPECT_EQ(whole_characters("aé", 3), "aé");
  EXPECT_EQ(whole_characters("aé", 2), "a");
  EXPECT_EQ(whole_characters("😀", 3), "");
  EXPECT_TRUE(is_plain_text("Übersetzer №1 😀"));
  EXPECT_FALSE(is_plain_text("\x1b[31m"));
}

}  // namespace
}  // namespace sluice::broker
