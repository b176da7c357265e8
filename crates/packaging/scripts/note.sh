# Writes what the system consists of into $NOTES/$1: files with all that tells a change, and settings of the kernel. Left out
# is what changes by itself, what package managers keep about themselves, what other programs leave in the home of somebody
# who logs in, and what the kernel works out anew from free memory at every start.
mkdir -p $NOTES
cd /
find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./packages \
    -o -path ./home -o -path ./var/log -o -path ./var/tmp -o -path ./var/cache -o -path ./var/backups \
    -o -path ./var/lib/scherzo-rig -o -path ./var/lib/systemd -o -path ./var/lib/apt \
    -o -path './var/lib/dpkg/status*' -o -path './var/lib/dpkg/lock*' -o -path './var/lib/dpkg/triggers' \
    -o -name icon-theme.cache -o -name mimeinfo.cache -o -path ./etc/systemd/system -o -path ./usr/lib/scherzo-rig \) -prune \
    -o -type d -printf '%p %y %m %u %g\n' \
    -o -printf '%p %y %m %u %g %s %T@ %l\n' | sort >$NOTES/$1.files
# What is turned on, by name and target: the rig's own unit is put there anew at every start.
find ./etc/systemd/system ! -name 'scherzo-guest-agent*' -printf '%p %y %l\n' | sort >>$NOTES/$1.files
find ./etc ./var/lib -xdev \( -path ./var/lib/scherzo-rig -o -path ./var/lib/systemd -o -path ./var/lib/apt \
    -o -path ./var/lib/dpkg \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum >>$NOTES/$1.files
sysctl -a 2>/dev/null | grep -Ev '^(kernel\.random|kernel\.ns_last_pid|kernel\.pty\.nr|kernel\.perf_event_max_sample_rate)' |
    grep -Ev '^fs\.(dentry-state|inode-nr|inode-state|file-nr|aio-nr|quota)|^kernel\.keys|conntrack_count' |
    grep -Ev '^vm\.(user_reserve|admin_reserve|min_free)_kbytes' |
    grep -Ev '^fs\.file-max |^net\.ipv4\.(tcp_(mem|rmem|wmem)|udp_mem) ' |
    sort >$NOTES/$1.sysctl
