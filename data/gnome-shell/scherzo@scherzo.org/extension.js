// SPDX-License-Identifier: GPL-2.0-or-later

import Gio from 'gi://Gio';

import {Extension} from 'resource:///org/gnome/shell/extensions/extension.js';
import * as Main from 'resource:///org/gnome/shell/ui/main.js';

import {EjectionNotifier} from './ejection.js';
import {Indicator} from './indicator.js';
import {connectScheduler} from './scheduler.js';

export default class ScherzoExtension extends Extension {
    enable() {
        this._cancellable = new Gio.Cancellable();
        this._show(this._cancellable).catch(error => {
            if (!error.matches?.(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED))
                console.error(error);
        });
    }

    disable() {
        this._cancellable.cancel();
        this._cancellable = null;
        this._notifier?.destroy();
        this._notifier = null;
        this._indicator?.destroy();
        this._indicator = null;
    }

    async _show(cancellable) {
        const scheduler = await connectScheduler(this.dir, cancellable);
        // Disabled meanwhile.
        if (cancellable.is_cancelled())
            return;
        this._indicator = new Indicator(scheduler, this.dir, cancellable);
        Main.panel.statusArea.quickSettings.addExternalIndicator(this._indicator);
        this._notifier = new EjectionNotifier(scheduler, this.dir);
    }
}
