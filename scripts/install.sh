#!/usr/bin/env bash
# Installs the Debian packages that a make target needs and that are missing. Says nothing when
# nothing is missing. Usage: scripts/install.sh build|run|test|packaging|console|bench|tpcc|fuzz|compat
#
# A database or proxy that we install is for our own children only: the distribution's service
# is kept from starting, now and at the next boot. A service that was there before is left alone.
set -euo pipefail

purpose=${1:-run}
missing=()

# has COMMAND: also looks where daemons live, which is not on every user's PATH.
has() {
  PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin" command -v "$1" >/dev/null 2>&1
}

# need PACKAGE COMMAND...: the package is missing when none of the commands is found.
need() {
  local package=$1 name
  shift
  for name in "$@"; do
    if has "$name"; then return; fi
  done
  missing+=("$package")
}

# need_php PACKAGE MODULE
need_php() {
  # Not grep -q: it leaves early, and php would be said to have failed.
  if has php && php -m 2>/dev/null | grep -i "^$2\$" >/dev/null; then return; fi
  missing+=("$1")
}

need_python_venv() {
  if has python3 && python3 -c 'import ensurepip' 2>/dev/null; then return; fi
  missing+=(python3-venv)
}

need_memcached_clients() {
  need memcached memcached
  need libmemcached-tools memccapable memcapable
  need_php php-memcached memcached
  if ! need_python_module pymemcache; then missing+=(python3-pymemcache); fi
  if ! need_python_module memcache; then missing+=(python3-memcache); fi
}

# need_python_module MODULE: in the python3 of the PATH, or in the distribution's.
need_python_module() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c "import $1" 2>/dev/null; then return 0; fi
  done
  return 1
}

# need_ruby PACKAGE GEM
need_ruby() {
  if has ruby && ruby -e "require '$2'" 2>/dev/null; then return; fi
  missing+=("$1")
}

# need_php_library PACKAGE FOLDER
need_php_library() {
  if [ -d "/usr/share/php/$2" ]; then return; fi
  missing+=("$1")
}

# need_perl PACKAGE MODULE
need_perl() {
  if has perl && perl -e "use $2" 2>/dev/null; then return; fi
  missing+=("$1")
}

if ! has "${CARGO:-cargo}"; then
  echo "install: cargo is not on PATH; install Rust from https://rustup.rs and open a new shell" >&2
  exit 1
fi

need gcc cc gcc clang
need lld ld.lld lld
case $purpose in
  build) ;;
  run)
    need mariadb-server mariadbd
    need mariadb-client mariadb
    ;;
  test)
    need mariadb-server mariadbd
    need mariadb-client mariadb
    need mariadb-backup mariadb-backup mariabackup
    need sysbench sysbench
    need haproxy haproxy
    need etcd-server etcd
    need iproute2 ip
    need etcd-client etcdctl
    need strace strace
    need php-cli php
    need_php php-mysql pdo_mysql
    need_php php-curl curl
    need_php php-xml simplexml
    need_php_library php-doctrine-dbal Doctrine/DBAL
    need python3 python3
    need_python_venv
    if ! need_python_module yaml; then missing+=(python3-yaml); fi
    need curl curl
    need_memcached_clients
    ;;
  packaging)
    need mariadb-server mariadbd
    need mariadb-client mariadb
    need etcd-server etcd
    need iproute2 ip
    need curl curl
    need python3 python3
    if ! need_python_module yaml; then missing+=(python3-yaml); fi
    ;;
  console)
    # Chromium is as large as all the rest: who has none is told so, and the test is skipped.
    need mariadb-server mariadbd
    need mariadb-client mariadb
    need nodejs node
    need npm npm
    ;;
  compat)
    need mariadb-server mariadbd
    need mariadb-client mariadb
    need php-cli php
    need_php php-mysql pdo_mysql
    need_php php-xml xmlreader
    need python3 python3
    need_python_venv
    need pkg-config pkg-config
    need libmariadb-dev mariadb_config
    need nodejs node
    need npm npm
    need default-jdk-headless javac
    need maven mvn
    need golang go
    need_memcached_clients
    need ruby ruby
    need_ruby ruby-mysql2 mysql2
    need_ruby ruby-activerecord active_record
    need_php_library php-doctrine-dbal Doctrine/DBAL
    need_php_library php-illuminate-database Illuminate/Database
    need mariadb-test mysqltest
    need_perl libdbd-mysql-perl DBD::mysql
    need_perl libdbd-mariadb-perl DBD::MariaDB
    ;;
  bench)
    need mariadb-server mariadbd
    need mariadb-client mariadb
    need sysbench sysbench
    need haproxy haproxy
    need etcd-server etcd
    need etcd-client etcdctl
    need memcached memcached
    need redis-server redis-server
    need strace strace
    need python3 python3
    ;;
  tpcc)
    need mariadb-server mariadbd
    need mariadb-client mariadb
    need golang go
    need python3 python3
    ;;
  fuzz)
    need g++ c++ g++ clang++
    ;;
  *)
    echo "usage: scripts/install.sh build|run|test|packaging|console|bench|tpcc|fuzz|compat" >&2
    exit 2
    ;;
esac

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if ! has apt-get; then
  echo "install: missing: ${missing[*]} (names of Debian packages). This system has no apt-get:" \
    "install them by its own means, then run make again." >&2
  exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! has sudo; then
    echo "install: missing: ${missing[*]}. As root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
policy=/usr/sbin/policy-rc.d
policy_is_ours=no
finish() {
  rm -f "$log"
  if [ "$policy_is_ours" = yes ]; then "${as_root[@]}" rm -f "$policy"; fi
}
trap finish EXIT

# Debian starts a service when it installs it, unless this file forbids that.
if [ ! -e "$policy" ]; then
  policy_is_ours=yes
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi

install_missing() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
}

echo "install: ${missing[*]}"
# Package lists may be there already; only when the install fails are they fetched anew.
if ! install_missing >"$log" 2>&1; then
  if ! { "${as_root[@]}" apt-get update --quiet && install_missing; } >>"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "install: could not install ${missing[*]}. Without a network, install these packages from" \
      "your own mirror or medium; with one, see the lines above." >&2
    exit 1
  fi
fi

if [ -d /run/systemd/system ]; then
  for package in "${missing[@]}"; do
    case $package in
      mariadb-server) "${as_root[@]}" systemctl disable --now --quiet mariadb || true ;;
      haproxy) "${as_root[@]}" systemctl disable --now --quiet haproxy || true ;;
      etcd-server) "${as_root[@]}" systemctl disable --now --quiet etcd || true ;;
    esac
  done
fi
