//! Embeds styles, icons and metadata.

fn main() {
    glib_build_tools::compile_resources(&["src", "data"], "src/scherzo.gresource.xml", "scherzo.gresource");
}
