#!/bin/sh
# One cycle of each job named, for a host whose clock is cron or a systemd timer, in place of the worker:
#
#   * * * * *  messenger  . /etc/messenger-jobs.env && /opt/messenger/cron.sh chat-provision-retry
#
# Where a run overlaps with the one before, or with another machine's, it finds the run lock taken and skips its cycle:
# nothing is done twice. Exit code 0 when every cycle came to its end, else 1; a summary of each is one line of JSON.
set -u

failed=0
for job in "$@"; do
    messenger-jobs run-once "$job" --json || failed=1
done
exit "$failed"
