"""Finding and using controls as a screen reader does, through the accessibility tree."""

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402

from stage import wait_for  # noqa: E402

# The library gives up after 0.8 s, and the applications of a busy machine answer later than that.
Atspi.set_timeout(15000, 15000)


def unless_gone(ask, instead):
    """An answer about a node; `instead` where the page has changed meanwhile, and the node is gone."""
    try:
        return ask()
    except GLib.Error:
        return instead


def walk(node):
    """A node and all below it; what has gone meanwhile is left out."""
    if node is None:
        return
    yield node
    for index in range(unless_gone(node.get_child_count, 0)):
        yield from walk(unless_gone(lambda at=index: node.get_child_at_index(at), None))


def application(name):
    """The application's root, once it is there."""

    def found():
        desktop = Atspi.get_desktop(0)
        apps = [desktop.get_child_at_index(index) for index in range(desktop.get_child_count())]
        return next((app for app in apps if app is not None and app.get_name() == name), None)

    return wait_for(f"the application {name} in the accessibility tree", found)


def is_shown(node):
    """It is on the page that is seen."""
    states = node.get_state_set()
    return states.contains(Atspi.StateType.SHOWING) and states.contains(Atspi.StateType.VISIBLE)


def find_all(root, role=None, name=None):
    """What is shown with this role (such as "button") and this accessible name."""

    def matches(node):
        return (role in (None, node.get_role_name())) and (name in (None, node.get_name())) and is_shown(node)

    return [node for node in walk(root) if unless_gone(lambda node=node: matches(node), False)]


def find(root, role=None, name=None):
    """The first such control, waited for."""
    return wait_for(f"{role or 'anything'} called {name!r}", lambda: (find_all(root, role, name) or [None])[0])


def texts(root):
    """Everything that can be read on the page that is seen."""

    def of(node):
        return {node.get_name(), content(node)} if is_shown(node) else set()

    return [text for node in walk(root) for text in unless_gone(lambda node=node: of(node), set()) if text]


def content(node):
    """The text that a label or an entry holds."""
    text = node.get_text_iface()
    return Atspi.Text.get_text(text, 0, Atspi.Text.get_character_count(text)) if text else ""


def has_state(node, state):
    """Such as "checked", "sensitive", "focused"."""
    return node.get_state_set().contains(getattr(Atspi.StateType, state.upper()))


def act(node):
    """The control's own action; whether it has one."""
    action = node.get_action_iface()
    if not action or Atspi.Action.get_n_actions(action) == 0:
        return False
    return Atspi.Action.do_action(action, 0)


def set_value(node, value):
    """Sets the number of a slider or a spin button; whether it took it."""
    return Atspi.Value.set_current_value(node.get_value_iface(), value)


def extents(node):
    """Where a control is in its window: x, y, width, height."""
    box = Atspi.Component.get_extents(node.get_component_iface(), Atspi.CoordType.WINDOW)
    return box.x, box.y, box.width, box.height


def describe(root, depth=0):
    """The tree as text, for a scenario that looks for something in vain."""
    if root is None:
        return ""
    line = f"{'  ' * depth}{root.get_role_name()} {root.get_name()!r}\n"
    children = [root.get_child_at_index(index) for index in range(root.get_child_count())]
    return line + "".join(describe(child, depth + 1) for child in children)
