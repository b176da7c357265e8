//! Runs inside the guest as a service and does what the host says. See `scherzo_vm::agent`.

fn main() -> anyhow::Result<()> {
    scherzo_vm::agent::serve()
}
