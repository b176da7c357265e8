//! A CPU's store buffer, as x86 has it: what a CPU has written is seen by itself at once and by others later, in order.
//!
//! The compiled code writes to memory. So memory is made to look as the CPU sees it that runs: when another one takes over, what
//! this one has not let out yet is taken back, and written again when it goes on.

#![allow(unsafe_code)]

/// A store that other CPUs do not see yet.
#[derive(Clone, Copy, Debug)]
struct BufferedStore {
    address: usize,
    size: usize,
    /// What others see there.
    before: [u8; 16],
    /// What was written; known once the instruction has been carried out.
    after: [u8; 16],
}

/// The stores of one CPU, the oldest first.
#[derive(Debug, Default)]
pub struct StoreBuffer {
    stores: Vec<BufferedStore>,
    /// The last one is about to be carried out.
    is_open: bool,
}

fn read(address: usize, size: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: the scheduler is about to write there, or has; its memory lasts as long as the run.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), size) };
    bytes
}

fn write(address: usize, size: usize, bytes: &[u8; 16]) {
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, size) };
}

impl StoreBuffer {
    /// The CPU is about to write there.
    pub fn add(&mut self, address: usize, size: usize) {
        let before = read(address, size);
        self.stores.push(BufferedStore { address, size, before, after: before });
        self.is_open = true;
    }

    /// What it was about to write has been written.
    pub fn close(&mut self) {
        if std::mem::take(&mut self.is_open)
            && let Some(store) = self.stores.last_mut()
        {
            store.after = read(store.address, store.size);
        }
    }

    /// Others see everything from now on. Only while this CPU runs, whose memory this is.
    pub fn drain(&mut self) {
        self.stores.clear();
        self.is_open = false;
    }

    /// Nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    /// Another CPU takes over: memory is what others see.
    pub fn hide(&mut self) {
        for store in self.stores.iter().rev() {
            write(store.address, store.size, &store.before);
        }
    }

    /// This CPU goes on: it sees its own stores, over what others have written meanwhile.
    pub fn show(&mut self) {
        for store in &mut self.stores {
            store.before = read(store.address, store.size);
            write(store.address, store.size, &store.after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_see_what_was_let_out() {
        let mut word = 1_u32;
        let address = &raw mut word as usize;
        let see = || u32::from(read(address, 4)[0]);
        let write =
            |value: u8| super::write(address, 4, &std::array::from_fn(|index| if index == 0 { value } else { 0 }));
        let mut stores = StoreBuffer::default();
        stores.add(address, 4);
        write(2);
        stores.close();
        stores.hide();
        assert_eq!(see(), 1);
        write(3);
        stores.show();
        assert_eq!(see(), 2);
        stores.hide();
        assert_eq!(see(), 3);
        stores.show();
        stores.drain();
        stores.hide();
        assert_eq!(see(), 2);
    }
}
