"""The app on a screen of its own, used as by somebody who does not see it, or who has a mouse only."""

import os
import time

import a11y
from stage import expect, spawn, wait_for
from x11 import X11

NAME = "org.scherzo.Scherzo"
# While pages fade into each other clicks go astray, and buttons that are used otherwise act with a delay.
LONGEST_TRANSITION_S = 0.3
# Around windows on a screen without a compositor, which could draw shadows.
BORDER = 5
# Until a new page or dialog has come in.
REST_S = 1.0
# By so much the coordinates of things on a page and of the window differ at most.
SHADOW = 12
# The height of a header, or of a bar at the bottom, with some room.
BAR = 60
# What is within a bar never comes clear of it.
MOST_WHEEL_STEPS = 40


def is_cut_off(node, left, right):
    """Whether a control that is shown reaches out of the window."""
    if not a11y.is_shown(node) or node.get_role_name() not in ("button", "check box", "radio button", "combo box"):
        return False
    x, _, width, _ = a11y.extents(node)
    return x < left - SHADOW or x + width > right + SHADOW


class App:
    """The running app."""

    def __init__(self, width=900, height=760, dark=False, top=0, arguments=()):
        # Nothing decorates or places windows here, and nothing else tells which style is wanted.
        os.environ.update(ADW_DEBUG_COLOR_SCHEME="prefer-dark" if dark else "prefer-light", ADW_DISABLE_PORTAL="1")
        # With the border, what is said here is what there is room for.
        width, height = width + 2 * BORDER, height + 2 * BORDER
        self.width = width
        self.top = top
        self.screen = X11(1000, 900)
        self.process = spawn("/usr/bin/scherzo", *arguments)
        self.root = a11y.application("scherzo")
        self.window = self.screen.window("Scherzo")
        self.screen.place(self.window, top, width, height)
        wait_for("the window's size", lambda: abs(a11y.extents(self.frame())[2] - width) < 20)

    def frame(self):
        """The window, or the dialog over it that has one of its own."""
        return a11y.find(self.root, "frame")

    def click(self, node):
        """A click in the middle of a control, where it has come to rest."""
        def rests():
            before = a11y.extents(node)
            time.sleep(LONGEST_TRANSITION_S)
            return before if before == a11y.extents(node) and before[2] > 0 else None

        self.bring_into_view(node)
        x, y, width, height = wait_for(f"{node.get_name()} at rest", rests)
        frame_x, frame_y, _, _ = a11y.extents(self.frame())
        print(f"click on {node.get_role_name()} {node.get_name()!r} at {x}, {y}")
        self.screen.click(x - frame_x + width / 2, self.top + y - frame_y + height / 2)

    def bring_into_view(self, node):
        """Turns the mouse wheel until a control is clear of bars and edges."""
        _, top, width, height = a11y.extents(self.frame())
        for _ in range(MOST_WHEEL_STEPS):
            _, y, _, extent = a11y.extents(node)
            middle = y - top + extent / 2
            if BAR <= middle <= height - BAR:
                return
            self.screen.click(width / 2, self.top + height / 2, button=5 if middle > height / 2 else 4)
            time.sleep(0.05)

    def use(self, name, role=None):
        """Uses a control by its action, or, where it has none, with the mouse."""
        nodes = wait_for(f"{role or 'anything'} called {name!r}", lambda: a11y.find_all(self.root, role, name))
        # A row and the switch in it have the same name; only one of them has an action.
        if any(a11y.act(node) for node in nodes):
            # A button is seen to go down before it does anything.
            time.sleep(LONGEST_TRANSITION_S)
        else:
            self.click(nodes[0])

    def choose(self, row, option):
        """Picks an option from a row's list with the keyboard, and tells when it shows it."""
        self.click(a11y.find(self.root, "combo box", row))
        item = wait_for(f"the option {option}", lambda: self.options(option))
        self.click(item[-1])
        wait_for(f"{row}: {option}", lambda: option in a11y.texts(a11y.find(self.root, "combo box", row)))

    def options(self, option):
        """What can be picked from a list that is open and says this."""
        items = a11y.find_all(self.root, "list item")
        return [item for item in items if option in a11y.texts(item) and not item.get_name()]

    def shows(self, text):
        """Whether this can be read anywhere on the page."""
        return any(text in shown for shown in a11y.texts(self.root))

    def is_on(self, name):
        """Whether a switch or a radio button is."""
        return any(a11y.has_state(node, "checked") for node in a11y.find_all(self.root, None, name))

    def expect_text(self, text):
        """Comes into sight."""
        wait_for(f"the text {text!r}", lambda: self.shows(text))

    def expect_gone(self, text):
        """Goes out of sight."""
        wait_for(f"the end of {text!r}", lambda: not self.shows(text))

    def look(self, name):
        """A picture of the page that is seen, at rest, for people to look at; and that nothing is cut off."""
        time.sleep(REST_S)
        self.screen.picture(f"app-{name}", self.window)
        left, _, width, _ = a11y.extents(self.frame())
        expect(f"width of {name}", width, self.width)
        right = left + width
        outside = [(node.get_name(), a11y.extents(node)) for node in a11y.walk(self.root) if is_cut_off(node, left, right)]
        expect(f"what is cut off in {name}", outside, [])

    def expect_running(self):
        """It has neither ended nor crashed."""
        expect("the app's exit code", self.process.poll(), None)
