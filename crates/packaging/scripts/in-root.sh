# Installs, tests, upgrades and purges in a root whose changes are forgotten, without systemd. NOTE is in the environment.
mount -t tmpfs tmpfs /mnt
mkdir /mnt/changes /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/work /mnt/root
cd /mnt/root
for dir in proc dev sys tmp run packages; do mkdir -p $dir; mount --rbind /$dir $dir; done
exec chroot . sh -euc '
export NOTES=/var/lib/scherzo-rig DEBIAN_FRONTEND=noninteractive
apt="apt-get -q -y -o APT::Sandbox::User=root"
mkdir -p $NOTES /var/cache/apt/archives/partial /var/lib/apt/lists/partial
note() { eval "$NOTE"; }
note before
$apt install /packages/1/*.deb
for program in scherzo scherzo-tray scherzoctl scherzo-bench /usr/libexec/scherzod; do $program --version; done
sh /packages/smoke
$apt install /packages/2/*.deb
dpkg-query -W -f "\${Version}\\n" scherzo-daemon | grep -e "-2$"
# As if it had run.
mkdir -p /var/lib/scherzo /run/scherzo
touch /var/lib/scherzo/settings.toml
$apt purge "scherzo*" gnome-shell-extension-scherzo
test ! -e /run/scherzo
note after
diff $NOTES/before.files $NOTES/after.files
'
