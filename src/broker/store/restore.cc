#include "broker/store/restore.h"

#include <algorithm>

namespace sluice::broker {

namespace {

void end(Lease& lease, EndReason how, const char* why, Instant now) {
  lease.state = State::ended;
  if (lease.ending == EndReason::none) lease.ending = how, lease.reason = why;
  if (lease.ended_at == Instant{}) lease.ended_at = now;
}

// Nobody receives the response any more, so nothing may be granted to it; the client asks again.
void cut_off(Lease& lease, Instant now) {
  end(lease, EndReason::released, "the broker restarted before it was answered; ask again", now);
}

// The wall clock may have been set meanwhile: no time is left in the future that could
// not have been there.
void settle_times(Lease& lease, Instant now) {
  const auto ttl = lease.request.ttl;
  lease.requested_at = std::min(lease.requested_at, now);
  if (lease.granted_at != Instant{}) lease.granted_at = std::min(lease.granted_at, now);
  if (lease.expires_at != Instant{})
    lease.expires_at =
        std::clamp(lease.expires_at, later(now, std::min(ttl, kGrace)), later(now, ttl));
}

// The request that it should yield to is cut off.
void need_not_yield(Lease& lease) {
  lease.yields_to = 0, lease.yield_by = {};
  if (lease.state != State::yielding) return;
  lease.state = State::held;
  lease.yield_requested_at = {};
}

}  // namespace

Restored restored(std::vector<Lease> stored, bool same_boot, const Moment& at) {
  Restored out;
  for (auto& lease : stored) {
    lease.request.holder.connection = 0;
    need_not_yield(lease);
    if (lease.state == State::waiting)
      cut_off(lease, at.now);
    else if (lease.state == State::draining)
      end(lease, EndReason::released, "given back", at.now);
    else if (!same_boot && lease.request.holder.pid != 0)
      end(lease, EndReason::holder_died, "its process ended with the machine's last boot", at.now);
    else
      settle_times(lease, at.now);
    (lease.state == State::ended ? out.ended : out.live).push_back(std::move(lease));
  }
  return out;
}

}  // namespace sluice::broker
