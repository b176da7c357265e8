// SPDX-License-Identifier: GPL-2.0-or-later
// `cargo xtask codegen` writes this file from crates/model: change that.

import {gettext as _} from 'resource:///org/gnome/shell/extensions/extension.js';

/** What modes are called on D-Bus. */
export const NAMES = ['interactive', 'fifo', 'low-power'];

/**
 * What a mode is called; its name if it is one of a newer service.
 *
 * @param {string} mode - as the service calls it
 */
export function title(mode) {
    switch (mode) {
    case 'interactive':
        return _('Interactive');
    case 'fifo':
        return _('First Come, First Served');
    case 'low-power':
        return _('Low Power');
    default:
        return mode;
    }
}

/**
 * As title, where there is little room.
 *
 * @param {string} mode - as the service calls it
 */
export function shortTitle(mode) {
    switch (mode) {
    case 'fifo':
        return 'FIFO';
    default:
        return title(mode);
    }
}
