use crate::{Error, Root};

/// The release of the running kernel, such as `6.18.15-amd64`.
pub fn release(root: &Root) -> Result<String, Error> {
    root.read("proc/sys/kernel/osrelease")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    #[test]
    fn the_release_is_one_word() {
        let (_dir, root) = tree(&[("proc/sys/kernel/osrelease", "6.18.15-amd64\n")]);
        assert_eq!(release(&root).unwrap(), "6.18.15-amd64");
    }
}
