/* The market module for other languages: plain C, no C++ types cross it.
 *
 *   char error[256];
 *   sluice_market* m = sluice_market_open("auto", NULL, error, sizeof error);
 *   double period = 14;
 *   const double* in[] = {close};
 *   double* out[] = {rsi};
 *   sluice_market_run(m, "RSI", &period, 1, in, 1, out, 1, 1, bars, "auto", error, sizeof error);
 *   sluice_market_close(m);
 *
 * Functions that can fail return 0, or a code with a message in `error` (cut to fit). All may
 * be called from several threads, with one `m` too. */
#ifndef SLUICE_BINDINGS_MARKET_H
#define SLUICE_BINDINGS_MARKET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API __attribute__((visibility("default")))

enum {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1, /* the caller must change something */
  SLUICE_NOT_FOUND = 2,
  SLUICE_EXHAUSTED = 3,
  SLUICE_UNAVAILABLE = 4, /* this machine or build cannot do it */
  SLUICE_INTERNAL = 5
};

typedef struct sluice_market sluice_market;

/* `device`: auto, cpu or gpu. `costs`: file of measured costs, kept between runs; may be
 * null. Returns null on failure. */
SLUICE_API sluice_market* sluice_market_open(const char* device, const char* costs, char* error,
                                             size_t error_size);
SLUICE_API void sluice_market_close(sluice_market* m);

SLUICE_API const char* sluice_market_version(void);

/* JSON: every indicator with its inputs, parameters and outputs. The text is never freed. */
SLUICE_API const char* sluice_market_indicators(void);

/* Bars before the first output. `values` in the order of the indicator's parameters; those
 * missing at the end take their defaults. */
SLUICE_API int sluice_market_lookback(const char* indicator, const double* values, size_t count,
                                      size_t* bars, char* error, size_t error_size);

/* `series` series of `bars` bars each, one after another in every array; arrays are read and
 * written in place. */
SLUICE_API int sluice_market_run(sluice_market* m, const char* indicator, const double* values,
                                 size_t count, const double* const* in, size_t in_count,
                                 double* const* out, size_t out_count, size_t series, size_t bars,
                                 const char* device, char* error, size_t error_size);
SLUICE_API int sluice_market_run_float(sluice_market* m, const char* indicator,
                                       const double* values, size_t count, const float* const* in,
                                       size_t in_count, float* const* out, size_t out_count,
                                       size_t series, size_t bars, const char* device, char* error,
                                       size_t error_size);

/* `calculation`: option, risk, portfolio, montecarlo, backtest or an indicator; the request and the
 * answer (to be given to sluice_market_free) are JSON. */
SLUICE_API int sluice_market_request(sluice_market* m, const char* calculation, const char* request,
                                     char** answer, char* error, size_t error_size);
SLUICE_API void sluice_market_free(char* answer);

#ifdef __cplusplus
}
#endif

#endif
