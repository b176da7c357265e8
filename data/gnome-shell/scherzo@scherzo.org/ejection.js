// SPDX-License-Identifier: GPL-2.0-or-later

import GLib from 'gi://GLib';
import Gio from 'gi://Gio';
import Shell from 'gi://Shell';

import {gettext as _} from 'resource:///org/gnome/shell/extensions/extension.js';
import * as Main from 'resource:///org/gnome/shell/ui/main.js';
import * as MessageTray from 'resource:///org/gnome/shell/ui/messageTray.js';

import {isLoaded, namedIcon} from './display.js';

const APP_NAME = 'org.scherzo.Scherzo';

/** Tray and extension both ask for this name; whoever has it tells of ejections, so that they are told once. */
const NOTIFIER_NAME = 'org.scherzo.Notifier';

/** A standby engine takes over much sooner. Tray and app wait as long. */
const TELL_AFTER_MS = 2000;

/** Tells that the scheduler was ejected and has not come back, unless the app is open, which shows it itself. */
export class EjectionNotifier {
    constructor(scheduler, dir) {
        this._scheduler = scheduler;
        this._dir = dir;
        this._isOurs = false;
        this._appIsOpen = false;
        this._timeoutId = 0;
        this._nameId = Gio.bus_own_name_on_connection(Gio.DBus.session, NOTIFIER_NAME, Gio.BusNameOwnerFlags.NONE,
            () => (this._isOurs = true), () => (this._isOurs = false));
        this._watchId = Gio.bus_watch_name_on_connection(Gio.DBus.session, APP_NAME, Gio.BusNameWatcherFlags.NONE,
            () => (this._appIsOpen = true), () => (this._appIsOpen = false));
        this._signalId = scheduler.connectSignal('EngineExited', () => this._tellLater());
    }

    destroy() {
        this._scheduler.disconnectSignal(this._signalId);
        this._stopWaiting();
        Gio.bus_unwatch_name(this._watchId);
        Gio.bus_unown_name(this._nameId);
        this._source?.destroy();
    }

    _tellLater() {
        this._stopWaiting();
        this._timeoutId = GLib.timeout_add(GLib.PRIORITY_DEFAULT, TELL_AFTER_MS, () => {
            this._timeoutId = 0;
            this._tell();
            return GLib.SOURCE_REMOVE;
        });
    }

    _stopWaiting() {
        if (this._timeoutId)
            GLib.source_remove(this._timeoutId);
        this._timeoutId = 0;
    }

    _tell() {
        // It mended itself, or somebody has turned it off.
        if (isLoaded(this._scheduler) || this._scheduler.Enabled === false)
            return;
        if (!this._isOurs || this._appIsOpen)
            return;
        // One at a time: the latest.
        this._source?.destroy();
        const gicon = namedIcon('warning', this._dir);
        this._source = new MessageTray.Source({title: 'Scherzo', icon: gicon});
        this._source.connect('destroy', () => (this._source = null));
        const notification = new MessageTray.Notification({
            source: this._source,
            title: _('Scherzo Stopped Working'),
            body: _("The kernel's own scheduler runs."),
            gicon,
        });
        const app = Shell.AppSystem.get_default().lookup_app(`${APP_NAME}.desktop`);
        if (app) {
            notification.connect('activated', () => app.activate());
            notification.addAction(_('Open Scherzo'), () => app.activate());
        }
        Main.messageTray.add(this._source);
        this._source.addNotification(notification);
    }
}
