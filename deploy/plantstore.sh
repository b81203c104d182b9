#!/bin/sh
# Runs a command of the Plant Store, as root, with the user, the settings and the folder of
# plantstore.service. So the names of files are relative to /var/lib/plantstore.
#
#   install -m 755 /opt/plantstore/deploy/plantstore.sh /usr/local/sbin/plantstore
#   plantstore check
set -e
umask 077
cd /var/lib/plantstore
if [ -e /etc/plantstore.env ]; then
    # As systemd does, with or without blanks and quotes around a value. No part of a value is run.
    settings=$(sed 's/^[[:space:]]*//; s/[[:space:]]*$//; s/[[:space:]]*=[[:space:]]*/=/' /etc/plantstore.env)
    while IFS= read -r line; do
        value=${line#*=}
        case $value in
            \'*\' | \"*\") value=${value#?} value=${value%?} ;;
        esac
        case $line in
            [A-Z]*=*) export "${line%%=*}=$value" ;;
        esac
    done << END
$settings
END
fi
exec runuser -u plantstore -- /opt/plantstore/.venv/bin/plantstore "$@"
