#!/bin/sh
# Before the files of the package are removed. dpkg passes "remove" or "upgrade", rpm the number of versions that stay.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac

if command -v systemctl >/dev/null; then
	if [ -d /run/systemd/system ]; then
		systemctl stop perigee.socket perigee.service || true
	fi
	# Links to units that are gone would stay.
	systemctl --quiet --no-reload disable perigee.socket perigee.service || true
	systemctl --quiet --no-reload --global disable perigee.service || true
fi
