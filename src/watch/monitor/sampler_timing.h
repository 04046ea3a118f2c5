// Timeouts and retry delays for the sampler process; the defaults are for real
// drivers, tests use shorter ones.
#pragma once

namespace sluice::watch {

struct SamplerTiming {
  double silent_after_s = 2;   // without a word: one comes every 1.2 s
  double kill_after_s = 4;     // the same, once GPUs were found; the start may take longer
  double slow_call_s = 1.5;    // one call this long is named in the state
  double start_limit_s = 60;   // for the libraries to open
  double hung_call_s = 10;     // one call this long: a fresh process may do better
  double gone_s = 5;           // a GPU gone this long: the same
  double grace_s = 2;          // between asking it to end and killing it
  double first_retry_s = 0.1;  // after a crash; doubled up to
  double longest_retry_s = 60;
  double first_refresh_s = 10;  // between fresh processes for the same trouble; doubled up to
  double longest_refresh_s = 300;
};

}  // namespace sluice::watch
