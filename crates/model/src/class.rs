//! Classes: what a task is taken for.

macro_rules! classes {
    ($($variant:ident = $number:literal, $c_name:literal, $name:literal, $text:literal;)+) => {
        /// What a task is taken for; the numbers are part of the layout.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Class {
            #[default]
            $(#[doc = $text] $variant = $number,)+
        }

        impl Class {
            /// Every class, in wire order.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$variant),+];

            /// The stable name used on D-Bus and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The end of its name in C.
            #[must_use]
            pub const fn c_name(self) -> &'static str {
                match self { $(Self::$variant => $c_name,)+ }
            }

            /// What it means.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

classes! {
    Unknown = 0, "UNKNOWN", "new", "Not classified yet.";
    Interactive = 1, "INTERACTIVE", "interactive", "Sleeps often of its own will: goes first.";
    Batch = 2, "BATCH", "batch", "Everything else.";
    Kernel = 3, "KERNEL", "kernel", "Scheduled by BPF alone: per-CPU and reclaim kernel threads.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number, "{}", class.name());
        }
    }
}
