// A broker over a machine and a folder of its own, and its events.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "broker/broker_for_tests.h"

namespace sluice::broker {

class BrokerTest : public testing::Test {
 protected:
  // After changes to host.options, before anything else.
  void open() {
    broker.reset();
    host.options.state_dir = folder.path;
    broker = std::make_unique<Broker>(host.options);
    broker->on_event([this](const BrokerEvent& e) { events.push_back(e); });
    broker->observe(host.sample());
  }
  LeaseResponse ask(const std::string& agent, double gb, OnUnavailable how = OnUnavailable::fail) {
    return broker->request(lease_request(agent, gb, how));
  }
  std::vector<std::string> types() const {
    std::vector<std::string> all;
    for (const auto& e : events) all.push_back(e.type);
    return all;
  }
  Json last_event() const { return Json::parse(events.back().json); }
  template <class F>
  static std::optional<Ledger::Outcome> outcome(F f) {
    try {
      f();
    } catch (const LeaseError& e) {
      return e.outcome();
    }
    return std::nullopt;
  }

  TemporaryFolder folder;
  Host host{{16, 24}};
  std::vector<BrokerEvent> events;
  std::unique_ptr<Broker> broker;
};

inline Token token(const LeaseResponse& response) { return token_of(response.lease); }

}  // namespace sluice::broker
