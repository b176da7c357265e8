# Gives the sessions of people what desktops bring: the message bus as a unit, as in Debian's dbus-user-session, which the
# guest does without, and a target that stands for the desktop. Gone when the machine starts anew.
# The systemd of an earlier session stays for some seconds, and would not look for them.
systemctl stop user@1000.service
mkdir -p /run/systemd/user
cd /run/systemd/user
cat >dbus.socket <<END
[Socket]
ListenStream=%t/bus
END
cat >dbus.service <<END
[Unit]
Requires=dbus.socket

[Service]
Type=notify
ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --systemd-activation --syslog-only
Slice=session.slice
END
cat >desktop.target <<END
[Unit]
Requires=dbus.socket
After=dbus.socket
BindsTo=graphical-session.target
END
