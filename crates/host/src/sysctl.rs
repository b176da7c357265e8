use crate::{Error, Root};

const COMPACT_UNEVICTABLE: &str = "proc/sys/vm/compact_unevictable_allowed";

/// `vm.compact_unevictable_allowed`: may the kernel move locked memory about, at the price of page faults?
/// `None` if this kernel has no such setting.
pub fn compact_unevictable(root: &Root) -> Result<Option<u32>, Error> {
    match root.read_number(COMPACT_UNEVICTABLE) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets `vm.compact_unevictable_allowed`.
pub fn set_compact_unevictable(root: &Root, value: u32) -> Result<(), Error> {
    root.write(COMPACT_UNEVICTABLE, &value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    #[test]
    fn what_is_written_is_read() {
        let (_dir, root) = tree(&[(COMPACT_UNEVICTABLE, "1\n")]);
        assert_eq!(compact_unevictable(&root).unwrap(), Some(1));
        set_compact_unevictable(&root, 0).unwrap();
        assert_eq!(compact_unevictable(&root).unwrap(), Some(0));
    }

    #[test]
    fn kernels_without_it_are_no_error() {
        let (_dir, root) = tree(&[]);
        assert_eq!(compact_unevictable(&root).unwrap(), None);
    }
}
