# SPDX-License-Identifier: Apache-2.0
# Shell functions of ./quickstart, ./check and scripts/dependencies.sh. Sourced from the top folder of the project.

started=${D5_STARTED:-$(date +%s)}
export D5_STARTED=$started

# Every step is announced with the time since the command was started.
say() {
  local seconds=$(($(date +%s) - started))
  printf '\n[%d:%02d] %s\n' $((seconds / 60)) $((seconds % 60)) "$*"
}

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

wrong_usage() {
  printf '%s: %s\n(%s --help says what there is)\n' "${0##*/}" "$*" "$0" >&2
  exit 2
}

# The comment block at the top of a script is its help; the SPDX line is not part of it.
help_of() { sed -n '3,/^$/s/^# \{0,1\}//p' "$1"; }

# Usable cores, but no more than memory allows: a compiler job of this project may need 1.5 GB.
default_jobs() {
  local cores kilobytes by_memory
  cores=$(nproc)
  kilobytes=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((kilobytes / 1500000))
  ((by_memory >= 1)) || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

is_count() { [[ $1 =~ ^[1-9][0-9]*$ ]]; }

# configure_and_build PRESET JOBS [TARGET...]
configure_and_build() {
  local preset=$1 jobs=$2
  shift 2
  cmake --preset "$preset" && cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}

# A clang++ that can build the fuzz targets: Debian has libFuzzer in a package of its own.
can_fuzz() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o /dev/null 2>/dev/null
}
