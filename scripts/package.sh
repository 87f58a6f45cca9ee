#!/usr/bin/env bash
# Makes a Debian package of a built program: scripts/package.sh PROGRAM OUTPUT_DIRECTORY
# Needs dpkg-deb and gzip, which every Debian has; neither root nor fakeroot.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:?the program}
output=${2:?the directory for the package}
version=$("$program" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
# The program was linked on this machine, so it may need what this libc has.
libc=$(dpkg-query --show --showformat='${Version}' libc6 | sed 's/-.*//')
# The same sources give the same package.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
doc=$root/usr/share/doc/heddle

install -D -m 755 "$program" "$root/usr/bin/heddle"
strip --strip-unneeded "$root/usr/bin/heddle"
install -D -m 644 packaging/heddle.service "$root/usr/lib/systemd/system/heddle.service"
install -D -m 640 packaging/heddle.toml "$root/etc/heddle/heddle.toml"
install -D -m 644 packaging/heddle.8 "$root/usr/share/man/man8/heddle.8"
install -D -m 644 packaging/grafana/heddle.json "$root/usr/share/heddle/grafana/heddle.json"
install -D -m 644 packaging/prometheus/heddle.rules.yml "$root/usr/share/heddle/prometheus/heddle.rules.yml"
install -d "$doc"
install -m 644 README.md docs/*.md "$doc/"
{
  echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
  echo "Upstream-Name: heddle"
  echo
  echo "Files: *"
  echo "Copyright: the authors of Heddle"
  echo "License: Apache-2.0"
  echo " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0."
} >"$doc/copyright"
chmod 644 "$doc/copyright"
{
  echo "heddle ($version) stable; urgency=medium"
  echo
  echo "  * See CHANGELOG.md of this version."
  echo
  echo " -- Heddle <heddle@localhost>  $(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"
install -m 644 CHANGELOG.md "$doc/"
gzip -9n "$root/usr/share/man/man8/heddle.8" "$doc"/[A-Z]*.md
gunzip "$doc/README.md.gz" "$doc/DEPLOYING.md.gz" "$doc/SETTINGS.md.gz"

install -d "$root/DEBIAN"
for script in postinst prerm postrm; do
  install -m 755 "packaging/$script" "$root/DEBIAN/$script"
done
echo /etc/heddle/heddle.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<CONTROL
Package: heddle
Version: $version
Architecture: $architecture
Maintainer: Heddle <heddle@localhost>
Installed-Size: $(du --summarize --block-size=1024 "$root" | cut -f1)
Depends: libc6 (>= $libc), libgcc-s1, adduser, init-system-helpers (>= 1.54~)
Recommends: mariadb-client | default-mysql-client
Suggests: etcd-server
Section: database
Priority: optional
Description: one address for a farm of MySQL and MariaDB servers
 Heddle stands between applications and unmodified servers: reads are spread
 over the replicas, writes go to the primary, and when a server dies clients
 go on in the same session. Several routers share a farm by etcd; a router is
 replaced by a newer version while its clients stay connected.
CONTROL
(cd "$root" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
chmod 644 "$root"/DEBIAN/{control,conffiles,md5sums}

mkdir -p "$output"
dpkg-deb --root-owner-group -Zxz --build "$root" "$output/heddle_${version}_$architecture.deb"
