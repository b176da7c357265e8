"""The app on the installed service and a real kernel, which runs what is chosen. In a guest, in a person's session."""

import time

import a11y
from app import App
from stage import Installed, expect, on_failure, wait_for

SCHED_EXT = "/sys/kernel/sched_ext"
MODES = [("interactive", "Interactive"), ("fifo", "First Come, First Served"), ("low-power", "Low Power")]


def kernel(name):
    """What the kernel itself says; nothing while no scheduler is loaded that it could say it about."""
    try:
        with open(f"{SCHED_EXT}/{name}", encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


began = time.monotonic()
stage = Installed()
app = App(width=760)
# There is nothing here that takes pictures.
on_failure[:] = [lambda: print(a11y.describe(app.root))]
app.expect_text("Keep Your Desktop Responsive")
print(f"NOTE app in a guest: its first page after {time.monotonic() - began:.1f} s of the guest's time")

app.use("Turn On", "button")
stage.wait_until("State", "running")
wait_for("the kernel's scheduler", lambda: kernel("state") == "enabled" and kernel("root/ops") == stage.get("KernelOps"))
wait_for("the controls", lambda: app.is_on("Use Scherzo"))
loads = kernel("enable_seq")
for mode, title in MODES:
    app.use(title, "radio button")
    stage.wait_until("Mode", mode)
    stage.wait_until("RequestedMode", mode)
    expect(f"what is loaded in {mode}", (kernel("state"), kernel("enable_seq")), ("enabled", loads))
before = stage.get("Preemption")
app.use("Interrupt Background Work", "check box")
stage.wait_until("Preemption", not before)
app.use("Use Scherzo", "check box")
stage.wait_until("State", "stopped")
wait_for("the kernel's own scheduler", lambda: kernel("state") == "disabled")
app.expect_running()
print(f"NOTE app in a guest: on, {len(MODES)} modes and off in {time.monotonic() - began:.1f} s of the guest's time")
