#!/bin/sh
# After the files of the package are there. dpkg passes "configure" and the earlier version, rpm the number of versions.
set -e

case "$1" in
configure) earlier=$2 ;;
1) earlier= ;;
[2-9]*) earlier=some ;;
*) exit 0 ;;
esac

if ! getent passwd perigee >/dev/null; then
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers perigee.conf
	else
		useradd --system --user-group --home-dir /var/lib/perigee --no-create-home --shell /usr/sbin/nologin \
			--comment "perigee gateway" perigee
	fi
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# Only a service that is running. The socket stays open, and open calls finish first.
	[ -z "$earlier" ] || systemctl try-restart perigee.service || true
fi

if [ -z "$earlier" ]; then
	cat <<'END'
perigee is installed. To use it with an agent: perigee run claude-code (or codex, gemini-cli, opencode, ...)
To serve as a system service, edit /etc/perigee/config.yaml, then run:
  systemctl enable --now perigee.socket perigee.service
END
fi
