// The actions of sluice model and the suite of sluice bench that have a file of their own.
#pragma once

#include "cli/common/command.h"

namespace sluice::cli {

int bench_model(Args args, Io& io);
int model_add(Args args, Io& io);
int model_inspect(Args args, Io& io);
int model_list(Args args, Io& io);
int model_operators(Args args, Io& io);
int model_remove(Args args, Io& io);
int model_show(Args args, Io& io);
int model_verify(Args args, Io& io);

}  // namespace sluice::cli
