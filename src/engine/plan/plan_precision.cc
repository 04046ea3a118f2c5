#include "engine/plan/plan_precision.h"

#include "base/error.h"
#include "formats/onnx/wire.h"

namespace sluice::engine {
namespace {

enum ReportField {
  kTypes = 1,
  kWanted,
  kLoss,
  kMeasured,
  kNarrow,
  kWideNode,
  kRefused,
  kLimit,
  kAsked
};

WideNode read_wide_node(std::string_view bytes) {
  WideNode node;
  for (onnx::Wire fields(bytes); fields.next();) {
    if (fields.number() == 1) node.value = fields.name();
    if (fields.number() == 2) node.node = fields.name();
    if (fields.number() == 3) node.why = fields.name();
  }
  return node;
}

}  // namespace

onnx::Message precision_message(const PrecisionReport& report) {
  onnx::Message message;
  message.bytes(kTypes, report.types)
      .bytes(kWanted, report.requested)
      .bytes(kMeasured, report.measured)
      .integer(kNarrow, report.narrow)
      .bytes(kRefused, report.refused)
      .real(kLimit, static_cast<float>(report.allowed_loss))
      .real(kAsked, static_cast<float>(report.requested_loss));
  if (report.loss) message.real(kLoss, static_cast<float>(*report.loss));
  for (const WideNode& node : report.wide)
    message.message(kWideNode,
                    onnx::Message().bytes(1, node.value).bytes(2, node.node).bytes(3, node.why));
  return message;
}

PrecisionReport read_precision(std::string_view bytes) {
  PrecisionReport report;
  for (onnx::Wire fields(bytes); fields.next();) {
    switch (fields.number()) {
      case kTypes: report.types = fields.name(); break;
      case kWanted: report.requested = fields.name(); break;
      case kLoss: report.loss = static_cast<double>(fields.real()); break;
      case kMeasured: report.measured = fields.name(); break;
      case kNarrow: report.narrow = static_cast<int>(fields.integer()); break;
      case kWideNode: report.wide.push_back(read_wide_node(fields.bytes())); break;
      case kRefused: report.refused = fields.name(); break;
      case kLimit: report.allowed_loss = static_cast<double>(fields.real()); break;
      case kAsked: report.requested_loss = static_cast<double>(fields.real()); break;
      default: break;
    }
  }
  require(report.loss.value_or(0) >= 0 && report.allowed_loss >= 0, "a loss that is no number");
  return report;
}

}  // namespace sluice::engine
