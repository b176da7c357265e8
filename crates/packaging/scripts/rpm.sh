# The spec's names of build dependencies are Fedora's, and so are the macros for units.
top=/build/rpm
mkdir -p $top/SOURCES /build/sources/vendor
cp -a /package/source /build/sources/scherzo-$VERSION
cd /build/sources
tar --zstd -cf $top/SOURCES/scherzo-$VERSION.tar.zst scherzo-$VERSION
# SCHERZO_VENDOR names the real ones, which all formats share.
tar --zstd -cf $top/SOURCES/scherzo-$VERSION-vendor.tar.zst vendor
fedora=/package/source/packaging/fedora
sed "s/^Release: .*/Release: $REVISION/" $fedora/scherzo.spec >$top/scherzo.spec
# Cargo would take rpm's way of finding libraries for a reason to compile anew all that uses GTK.
printf '%%__spec_build_pre %%{___build_pre}\\\nunset PKG_CONFIG_PATH\n' >$top/macros
rpmbuild -bb --nodeps --load $fedora/macros.systemd --load $top/macros --define "_topdir $top" --define 'debug_package %{nil}' $top/scherzo.spec
rpmlint --config $fedora/rpmlint.toml $top/scherzo.spec $top/RPMS/*/*.rpm
mv $top/RPMS/*/*.rpm /package/out/
