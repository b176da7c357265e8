tree=/build/scherzo-$VERSION
cp -a /package/source $tree
cp -a $tree/packaging/debian $tree/debian
cd $tree
sed -i "1s/(.*)/($VERSION-$REVISION)/" debian/changelog
export DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc)"
dpkg-buildpackage --build=binary --no-sign
lintian --fail-on error --tag-display-limit 0 ../*.changes
mv ../*.deb ../*.changes /package/out/
