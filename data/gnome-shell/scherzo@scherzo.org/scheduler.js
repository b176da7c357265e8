// SPDX-License-Identifier: GPL-2.0-or-later

import Gio from 'gi://Gio';

import {gettext, gettext as _} from 'resource:///org/gnome/shell/extensions/extension.js';
import * as Main from 'resource:///org/gnome/shell/ui/main.js';

const BUS_NAME = 'org.scherzo.Scheduler1';
const OBJECT_PATH = '/org/scherzo/Scheduler1';
const INTERFACE_FILE = 'org.scherzo.Scheduler1.xml';

/** Somebody may have to type a password meanwhile. */
const TIMEOUT_MS = 120_000;

/** Following the service must not start it: it is there, or the toggle is hidden. */
const FLAGS = Gio.DBusProxyFlags.DO_NOT_AUTO_START | Gio.DBusProxyFlags.DO_NOT_AUTO_START_AT_CONSTRUCTION;

/** Errors after which what was asked for may be done still: a choice is kept where the scheduler ended before it could follow it. */
const LATE = [
    'org.scherzo.Scheduler1.Error.Busy',
    'org.scherzo.Scheduler1.Error.NotRunning',
    'org.freedesktop.DBus.Error.NoReply',
];

Gio._promisify(Gio.File.prototype, 'load_contents_async');

/**
 * A proxy of the service, which need not run.
 *
 * @param {Gio.File} dir - of the extension, where the interface's description lies
 * @param {Gio.Cancellable} cancellable - ends the attempt
 */
export async function connectScheduler(dir, cancellable) {
    const [xml] = await dir.get_child(INTERFACE_FILE).load_contents_async(cancellable);
    const Scheduler = Gio.DBusProxy.makeProxyWrapper(new TextDecoder().decode(xml));
    const scheduler = await Scheduler.newAsync(Gio.DBus.system, BUS_NAME, OBJECT_PATH, cancellable, FLAGS);
    scheduler.set_default_timeout(TIMEOUT_MS);
    return scheduler;
}

/**
 * Asks the service for a change. What it answers is for people, and shown to them.
 *
 * @param {Gio.DBusProxy} scheduler - the service
 * @param {string} setter - a method with one argument
 * @param {boolean|string} value - the argument
 * @param {Gio.Cancellable} cancellable - ends the waiting
 */
export async function ask(scheduler, setter, value, cancellable) {
    try {
        const flags = Gio.DBusCallFlags.ALLOW_INTERACTIVE_AUTHORIZATION;
        await scheduler[`${setter}Async`](value, flags, cancellable);
    } catch (error) {
        if (!error.matches)
            throw error;
        if (error.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED))
            return;
        // What is late may be done still.
        const isLate = LATE.includes(Gio.DBusError.get_remote_error(error)) ||
            error.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.TIMED_OUT);
        Gio.DBusError.strip_remote_error(error);
        // Those of the service's sentences that never vary are known to translators.
        Main.notifyError(isLate ? _('Not Done Yet') : _('Nothing Was Changed'), gettext(error.message));
    }
}
