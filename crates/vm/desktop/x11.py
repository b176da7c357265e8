"""A virtual X11 display with a keyboard, a mouse and a camera."""

import os
import subprocess

from stage import PICTURES, on_failure, output_of, wait_for


class X11:
    """A screen that programs started from here on appear on."""

    def __init__(self, width=1280, height=900):
        reader, writer = os.pipe()
        geometry = f"{width}x{height}x24"
        # The server picks a free number: a fixed one may have been left behind locked.
        command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", geometry, "-nolisten", "tcp", "-noreset"]
        subprocess.Popen(command, pass_fds=[writer])
        os.environ.update(DISPLAY=":" + os.read(reader, 100).decode().strip(), GDK_BACKEND="x11", GSK_RENDERER="cairo")
        os.environ.pop("WAYLAND_DISPLAY", None)
        on_failure.append(lambda: self.picture("failed"))

    def window(self, name):
        """The id of the visible window whose title contains this."""
        search = ["xdotool", "search", "--onlyvisible", "--name", name]

        def found():
            result = subprocess.run(search, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            return result.stdout.split()

        return wait_for(f"the window {name}", found)[-1]

    def resize(self, window, width, height):
        """Makes a window so large, at the screen's corner: there is no window manager that would place it."""
        output_of("xdotool", "windowmove", window, "0", "0", "windowsize", window, str(width), str(height))

    def position(self, window):
        """Where a window's corner is on the screen."""
        shell = output_of("xdotool", "getwindowgeometry", "--shell", window)
        values = dict(line.split("=") for line in shell.splitlines())
        return int(values["X"]), int(values["Y"])

    def click(self, x, y, button=1):
        """A click at a place on the screen."""
        output_of("xdotool", "mousemove", str(round(x)), str(round(y)), "click", str(button))

    def hover(self, x, y):
        """Moves the pointer there and leaves it."""
        output_of("xdotool", "mousemove", str(round(x)), str(round(y)))

    def keys(self, *keys):
        """Presses keys, such as "Tab" or "ctrl+comma", in the focused window."""
        output_of("xdotool", "key", "--delay", "30", *keys)

    def is_empty(self, area):
        """Whether a part of the screen ("100x100+0+50") shows one colour only."""
        return output_of("import", "-window", "root", "-crop", area, "-format", "%k", "info:") == "1"

    def picture(self, name, window="root"):
        """A photograph of a window, or of the whole screen."""
        path = os.path.join(PICTURES, f"{name}.png")
        output_of("import", "-window", window, path)
        return path
