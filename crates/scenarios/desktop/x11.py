"""A virtual X11 display with a keyboard, a mouse and a camera."""

import mmap
import os
import struct
import subprocess
import tempfile

from stage import PICTURES, on_failure, output_of, wait_for


# See X11/XWDFile.h.
XWD_COLOR_BYTES = 12
PIXEL_BYTES = 4


class X11:
    """A screen that programs started from here on appear on."""

    def __init__(self, width=1280, height=900):
        reader, writer = os.pipe()
        geometry = f"{width}x{height}x24"
        # The server picks a free number: a fixed one may have been left behind locked.
        command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", geometry, "-nolisten", "tcp", "-noreset"]
        directory = tempfile.mkdtemp()
        subprocess.Popen([*command, "-fbdir", directory], pass_fds=[writer])
        os.environ.update(DISPLAY=":" + os.read(reader, 100).decode().strip(), GDK_BACKEND="x11", GSK_RENDERER="cairo")
        os.environ.pop("WAYLAND_DISPLAY", None)
        on_failure.append(lambda: self.picture("failed"))
        self._map_pixels(os.path.join(directory, "Xvfb_screen0"))

    def _map_pixels(self, path):
        """The screen's own memory: a file in the format of xwd."""
        with open(path, "rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = struct.unpack(">25I", self._memory[:100])
        header_bytes, nr_colors, self._line_bytes = header[0], header[19], header[12]
        self._pixels_at = header_bytes + nr_colors * XWD_COLOR_BYTES

    def pixel(self, x, y):
        """The colour at a place of the screen, 0 where there is nothing. Costs nobody anything."""
        at = self._pixels_at + y * self._line_bytes + x * PIXEL_BYTES
        return int.from_bytes(self._memory[at : at + 3], "little")

    def window(self, name):
        """The id of the visible window whose title contains this."""
        return wait_for(f"the window {name}", lambda: self._search("--name", name))[-1]

    def windows(self):
        """The ids of all visible windows, menus among them."""
        return set(self._search("--class", ""))

    def _search(self, *what):
        search = ["xdotool", "search", "--onlyvisible", *what]
        # Nothing found is a failure to it.
        return subprocess.run(search, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()

    def place(self, window, top, width, height):
        """Makes a window so large, at the screen's left edge: there is no window manager that would place it."""
        output_of("xdotool", "windowmove", window, "0", str(top), "windowsize", window, str(width), str(height))

    def focus(self, window):
        """Gives it the keyboard, as a window manager does when another window has closed."""
        output_of("xdotool", "windowfocus", window)

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
