// Every command's entry point; the table in dispatcher.cc lists them.
#pragma once

#include "cli/common/command.h"

namespace sluice::cli {

int backtest(Args args, Io& io);
int bench(Args args, Io& io);
int canary(Args args, Io& io);
int classify(Args args, Io& io);
int compile(Args args, Io& io);
int detect(Args args, Io& io);
int doctor(Args args, Io& io);
int embed(Args args, Io& io);
int gpu_limit(Args args, Io& io);
int gpu_worker(Args args, Io& io);
int lease(Args args, Io& io);
int market_command(Args args, Io& io);
int memory(Args args, Io& io);
int model(Args args, Io& io);
int quantize(Args args, Io& io);
int rerank(Args args, Io& io);
int run_model(Args args, Io& io);
int sampler(Args args, Io& io);
int serve(Args args, Io& io);
int settings(Args args, Io& io);
int tag(Args args, Io& io);
int tokenize(Args args, Io& io);
int top(Args args, Io& io);
int tune(Args args, Io& io);

}  // namespace sluice::cli
