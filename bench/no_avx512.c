// Takes AVX-512 away from a program and all its libraries, to compare them as on a processor
// that has AVX2 only (Linux, x86-64, where the kernel can make cpuid fault):
//
//   gcc -O2 -shared -fPIC -o /tmp/no_avx512.so bench/no_avx512.c
//   LD_PRELOAD=/tmp/no_avx512.so bench/engine_bench.py build/sluice --models /tmp/models
//
// cpuid faults, and the handler answers for it, without those bits. Threads inherit that.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSetCpuid = 0x1012 };  // ARCH_SET_CPUID: whether cpuid works

static struct sigaction before;

static void answer(greg_t* registers) {
  unsigned a = (unsigned)registers[REG_RAX], b, c = (unsigned)registers[REG_RCX], d;
  const unsigned leaf = a, part = c;
  syscall(SYS_arch_prctl, kSetCpuid, 1UL);
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  syscall(SYS_arch_prctl, kSetCpuid, 0UL);
  if (leaf == 7 && part == 0) {
    b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
    c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
    d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);  // AMX too
  }
  if (leaf == 7 && part == 1) a &= ~(1u << 4 | 1u << 5);
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

static void fault(int number, siginfo_t* info, void* context) {
  greg_t* const registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* const code = (const unsigned char*)registers[REG_RIP];
  if (code[0] == 0x0f && code[1] == 0xa2) return answer(registers);
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
  signal(number, SIG_DFL);
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction own = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &own, &before);
  if (syscall(SYS_arch_prctl, kSetCpuid, 0UL) == 0) return;
  perror("cpuid cannot be made to fault here");
  exit(1);
}
