// Marks formulas that CPU and GPU share.
#pragma once

#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif
