#!/bin/sh
# Runs a command of the Plant Store, as root, with the user, the settings and the folder of
# plantstore.service. So the names of files are relative to /var/lib/plantstore.
#
#   install -m 755 /opt/plantstore/deploy/plantstore.sh /usr/local/sbin/plantstore
#   plantstore check
set -ea
umask 077
cd /var/lib/plantstore
[ ! -e /etc/plantstore.env ] || . /etc/plantstore.env
exec runuser -u plantstore -- /opt/plantstore/.venv/bin/plantstore "$@"
