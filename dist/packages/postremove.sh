#!/bin/sh
# After the files of the package are removed. What users have recorded, /var/lib/perigee and its owner, always stays.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
	rm -rf /etc/perigee /etc/systemd/system/perigee.service.d /etc/systemd/system/perigee.socket.d
	if rmdir /var/lib/perigee 2>/dev/null || [ ! -e /var/lib/perigee ]; then
		# Not a user of that name that was there before.
		case "$(getent passwd perigee)" in
		*:/var/lib/perigee:*) userdel perigee || true ;;
		esac
	fi
fi
