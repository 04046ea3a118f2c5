// The routes /v1/market. Bodies are passed to the MarketService unchanged; the answer is sent when
// it is calculated.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "market/request/request.h"
#include "serve/http/route_entry.h"

namespace sluice::serve::http {

namespace {

// A long answer, written as it is sent.
class Answer final : public ChunkedBody {
 public:
  Answer(MarketService& market, JsonText text, std::shared_ptr<MarketService::Job> job)
      : market_(market), text_(std::move(text)), job_(std::move(job)) {}
  ~Answer() override { market_.discard(std::move(text_), std::move(job_)); }

  bool next(std::string& out) override {
    constexpr std::size_t kPiece = 16 << 10;  // 50 us of a thread that serves others
    const bool more = text_.next(out, kPiece);
    if (!more) out += '\n';
    return more;
  }

 private:
  MarketService& market_;
  JsonText text_;
  std::shared_ptr<MarketService::Job> job_;  // holds its charge
};

class Calculation final : public Pending {
 public:
  Calculation(MarketService& market, std::shared_ptr<MarketService::Job> job)
      : market_(market), job_(std::move(job)) {}
  ~Calculation() override { market_.discard(std::move(job_)); }

  std::unique_ptr<Response> poll(Instant now, Instant& again) override {
    auto answer = job_->take(now);
    if (answer) return std::make_unique<Response>(response_of(std::move(*answer)));
    again = now + std::chrono::seconds(1);
    return nullptr;
  }

 private:
  Response response_of(MarketService::Answer answer) const {
    if (!answer.rest) return json_text(std::move(answer.text));
    Response made;
    made.chunks = std::make_unique<Answer>(market_, std::move(*answer.rest), job_);
    return made;
  }

  MarketService& market_;
  std::shared_ptr<MarketService::Job> job_;
};

Response list_kinds(Service&, const RouteContext&) {
  return json_text(Json{{"calculations", {"option", "risk", "portfolio", "montecarlo", "backtest"}},
                        {"indicators", market::indicator_list()}}
                       .dump());
}

Response calculate(Service& s, const RouteContext& context) {
  auto& request = context.request;
  Response made;
  made.pending = std::make_unique<Calculation>(
      s.market(), s.market().ask(request.peer.name(), request.captures.at(0),
                                 std::move(request.body), request.memory, std::move(request.held)));
  return made;
}

constexpr int kKindsReuse_ms = 60'000;  // it never changes

constexpr RouteEntry kMarketRoutes[] = {
    {.method = Method::get,
     .pattern = "/v1/market",
     .handler = list_kinds,
     .reuse_ms = kKindsReuse_ms},
    {.method = Method::post,
     .pattern = "/v1/market/{what}",
     .handler = calculate,
     .execution = kBlocking,
     .max_body = kAnyBody},
};

}  // namespace

std::span<const RouteEntry> market_routes() noexcept { return kMarketRoutes; }

}  // namespace sluice::serve::http
