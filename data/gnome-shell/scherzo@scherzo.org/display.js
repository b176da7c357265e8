// SPDX-License-Identifier: GPL-2.0-or-later

/** What the service says, in words and icons. */

import Gio from 'gi://Gio';

import {gettext as _} from 'resource:///org/gnome/shell/extensions/extension.js';

import {NAMES, shortTitle, title} from './modes.js';

/** What can be asked for, in the menu's order. */
export const MODES = ['auto', ...NAMES];

/**
 * The name of what can be asked for.
 *
 * @param {string} mode - as the service calls it
 */
export function modeName(mode) {
    return mode === 'auto' ? _('Automatic') : title(mode);
}

/**
 * What runs: a word for the toggle, and a sentence for the menu where the word does not tell all.
 *
 * @param {Gio.DBusProxy} scheduler - the service
 */
export function describe(scheduler) {
    switch (scheduler.State) {
    case 'running':
        // The toggle has no room for a long name.
        return {title: shortTitle(scheduler.Mode), subtitle: ''};
    case 'degraded':
        return {title: _('Degraded'), subtitle: _('Running, but the engine does not answer')};
    case 'starting':
        return {title: _('Starting'), subtitle: ''};
    case 'fallback':
        return {title: _('Not Running'), subtitle: _("Stopped working; the kernel's own scheduler runs")};
    case 'unsupported':
        return {title: _('Not Running'), subtitle: _('This kernel is not supported')};
    case 'foreign':
        return {title: _('Not Running'), subtitle: _('Another scheduler is loaded')};
    default:
        return {title: _('Turned off'), subtitle: ''};
    }
}

/**
 * Whether Scherzo's scheduler is in the kernel.
 *
 * @param {Gio.DBusProxy} scheduler - the service
 */
export function isLoaded(scheduler) {
    return ['running', 'degraded'].includes(scheduler.State);
}

/**
 * Whether it is turned on and does not do what it should.
 *
 * @param {Gio.DBusProxy} scheduler - the service
 */
export function needsAttention(scheduler) {
    return scheduler.Enabled === true && !['running', 'starting'].includes(scheduler.State);
}

/**
 * The icon for what runs.
 *
 * @param {Gio.DBusProxy} scheduler - the service
 * @param {Gio.File} dir - of the extension
 */
export function icon(scheduler, dir) {
    if (needsAttention(scheduler))
        return namedIcon('warning', dir);
    if (scheduler.State !== 'running')
        return namedIcon('off', dir);
    // A newer service may have modes that are not known here.
    return namedIcon(NAMES.includes(scheduler.Mode) ? scheduler.Mode : 'interactive', dir);
}

/**
 * An icon of the extension's own.
 *
 * @param {string} name - without what all have in common
 * @param {Gio.File} dir - of the extension
 */
export function namedIcon(name, dir) {
    return new Gio.FileIcon({file: dir.get_child('icons').get_child(`scherzo-${name}-symbolic.svg`)});
}
