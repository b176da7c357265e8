// SPDX-License-Identifier: GPL-2.0-or-later

import GObject from 'gi://GObject';
import Shell from 'gi://Shell';

import {gettext as _} from 'resource:///org/gnome/shell/extensions/extension.js';
import * as Main from 'resource:///org/gnome/shell/ui/main.js';
import * as PopupMenu from 'resource:///org/gnome/shell/ui/popupMenu.js';
import {QuickMenuToggle, SystemIndicator} from 'resource:///org/gnome/shell/ui/quickSettings.js';

import {MODES, describe, icon, modeName, needsAttention} from './display.js';
import {ask} from './scheduler.js';

const APP = 'org.scherzo.Scherzo.desktop';

const Toggle = GObject.registerClass(
class ScherzoToggle extends QuickMenuToggle {
    constructor(scheduler, dir, cancellable) {
        super({title: 'Scherzo'});
        // GNOME 48 does not have it.
        if ('menuButtonAccessibleName' in this)
            this.menuButtonAccessibleName = _('Open the menu of Scherzo');

        this._scheduler = scheduler;
        this._dir = dir;
        this._cancellable = cancellable;
        this._modeItems = new Map();
        // What preemption is to be, while the service has not answered.
        this._wantedPreemption = null;

        this._addModes();
        this.menu.addMenuItem(new PopupMenu.PopupSeparatorMenuItem());
        this._addPreemption();
        this._addApp();
        this.connect('clicked', () => this._ask('SetEnabled', !this._scheduler.Enabled));

        scheduler.connectObject(
            'g-properties-changed', () => this._sync(),
            'notify::g-name-owner', () => this._sync(),
            this);
        this._sync();
    }

    _addModes() {
        for (const mode of MODES) {
            const item = new PopupMenu.PopupMenuItem(modeName(mode));
            item.connect('activate', () => this._ask('SetMode', mode));
            this._modeItems.set(mode, item);
            this.menu.addMenuItem(item);
        }
    }

    _addPreemption() {
        this._preemption = new PopupMenu.PopupSwitchMenuItem(_('Interrupt Background Work'), false);
        this._preemption.connect('toggled', (item, wanted) => {
            // Also emitted when the switch follows the service.
            if (wanted !== this._preemptionToShow())
                this._setPreemption(wanted);
        });
        this.menu.addMenuItem(this._preemption);
    }

    _preemptionToShow() {
        return this._wantedPreemption ?? this._scheduler.Preemption;
    }

    async _setPreemption(wanted) {
        this._wantedPreemption = wanted;
        await this._ask('SetPreemption', wanted);
        // Somebody may have thought better of it meanwhile.
        if (this._wantedPreemption === wanted)
            this._wantedPreemption = null;
        this._sync();
    }

    _addApp() {
        const apps = Shell.AppSystem.get_default();
        const item = this.menu.addAction(_('Open Scherzo'), () => {
            Main.overview.hide();
            Main.panel.closeQuickSettings();
            apps.lookup_app(APP)?.activate();
        });
        const sync = () => (item.visible = apps.lookup_app(APP) !== null);
        apps.connectObject('installed-changed', sync, this);
        sync();
    }

    async _ask(setter, value) {
        await ask(this._scheduler, setter, value, this._cancellable);
    }

    _sync() {
        const scheduler = this._scheduler;
        if (this._cancellable.is_cancelled())
            return;
        // Without an owner nothing is known, and there is nothing to toggle.
        this.visible = scheduler.g_name_owner !== null && scheduler.State !== null;
        if (!this.visible)
            return;
        const {title, subtitle} = describe(scheduler);
        const gicon = icon(scheduler, this._dir);
        this.set({checked: scheduler.Enabled, subtitle: title, gicon});
        this.menu.setHeader(gicon, 'Scherzo', subtitle);
        for (const [mode, item] of this._modeItems)
            item.setOrnament(mode === scheduler.RequestedMode ? PopupMenu.Ornament.CHECK : PopupMenu.Ornament.NONE);
        this._preemption.setToggleState(this._preemptionToShow());
    }
});

/** In the panel only while Scherzo is turned on and something is wrong. */
export const Indicator = GObject.registerClass(
class ScherzoIndicator extends SystemIndicator {
    constructor(scheduler, dir, cancellable) {
        super();
        const toggle = new Toggle(scheduler, dir, cancellable);
        const image = this._addIndicator();
        toggle.bind_property('gicon', image, 'gicon', GObject.BindingFlags.SYNC_CREATE);
        const sync = () => (image.visible = toggle.visible && needsAttention(scheduler));
        toggle.connectObject('notify::visible', sync, 'notify::gicon', sync, image);
        sync();
        this.quickSettingsItems.push(toggle);
    }

    destroy() {
        // The shell never destroys the menu of a toggle, which would follow the service for ever.
        this.quickSettingsItems.forEach(item => {
            item.menu.destroy();
            item.destroy();
        });
        super.destroy();
    }
});
