# Compiles the service twice: where Debian's package is made, and with sources, dependencies and results elsewhere.
# All of the workspace is named so that its crates have the features that they have in the packages.
compile() (
    cp -a /package/source $1
    cd $1
    eval "$(DEB_BUILD_MAINT_OPTIONS=hardening=+all dpkg-buildflags --export=sh)"
    packaging/cargo build --release --workspace --bin scherzod
    cd $CARGO_TARGET_DIR/release
    sha256sum scherzod
)
compile /build/scherzo-$VERSION >/package/out/first
mkdir /build/elsewhere
cp -a $SCHERZO_VENDOR /build/elsewhere/crates
export SCHERZO_VENDOR=/build/elsewhere/crates CARGO_TARGET_DIR=/build/elsewhere/results
compile /build/elsewhere/sources >/package/out/second
