//! What of a hold, present or past, is shown to whom: everybody may know that somebody holds which mode; which
//! application it is and why is for its own user and root.

use std::collections::HashMap;

use scherzo_api::types::Reason;
use scherzo_supervisor::Hold;
use zbus::{OwnedVariant, Variant};

use crate::input::HistoryEntry;

/// What the caller may see of others' holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// A caller that polkit allows to see everything.
    Administrator,
    /// A program of this user, if the bus knows whose it is.
    User(Option<u32>),
}

impl Viewer {
    pub(crate) fn may_see_all_of(self, owner: Option<u32>) -> bool {
        match self {
            Self::Administrator | Self::User(Some(0)) => true,
            Self::User(user) => user.is_some() && user == owner,
        }
    }
}

/// Arguments of a past hold that are not for everybody.
const PRIVATE: &str = "application";

/// A hold as this viewer sees it.
pub(crate) fn show_hold(hold: &Hold, viewer: Viewer) -> HashMap<String, OwnedVariant> {
    let text = |text: &str| OwnedVariant::from(zbus::Str::from(text.to_owned()));
    let mut shown =
        HashMap::from([("cookie".to_owned(), hold.cookie.into()), ("mode".to_owned(), text(hold.wanted.mode.name()))]);
    if let Some(uid) = hold.holder.uid {
        shown.insert("uid".to_owned(), uid.into());
    }
    if let Some(until_s) = hold.until_s {
        shown.insert("until".to_owned(), until_s.cast_signed().into());
    }
    if viewer.may_see_all_of(hold.holder.uid) {
        shown.insert("application".to_owned(), text(&hold.wanted.application));
        shown.insert("reason".to_owned(), text(&hold.wanted.reason));
        shown.extend(hold.foreground.as_ref().map(|front| ("foreground".to_owned(), text(&front.group.path))));
    }
    shown
}

/// The history as this viewer sees it.
pub(crate) fn show_history(mut entries: Vec<HistoryEntry>, viewer: Viewer) -> Vec<HistoryEntry> {
    for (_, _, details) in &mut entries {
        if is_of_hold(details) && !viewer.may_see_all_of(details.get("uid").and_then(uid)) {
            details.remove(PRIVATE);
        }
    }
    entries
}

/// Whether an entry of the history with these arguments is about a hold.
pub(crate) fn is_of_hold(details: &HashMap<String, OwnedVariant>) -> bool {
    matches!(details.get("reason").map(|reason| &**reason), Some(Variant::Str(id)) if id.as_str() == Reason::Hold.name())
}

fn uid(value: &OwnedVariant) -> Option<u32> {
    match &**value {
        Variant::I64(uid) => u32::try_from(*uid).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use scherzo_api::details::{self, Details};
    use scherzo_api::types::{HistoryEvent, Mode};
    use scherzo_supervisor::{Caller, HoldRequest, Tie};

    use super::*;

    const OWNER: u32 = 1000;

    fn hold(uid: Option<u32>) -> Hold {
        let wanted = HoldRequest {
            mode: Mode::Fifo,
            reason: "a secret".into(),
            application: "org.example.App".into(),
            tie: Tie::Connection,
            seconds: None,
        };
        Hold { cookie: 7, holder: Caller { name: ":1.5".into(), uid }, wanted, until_s: None, foreground: None }
    }

    fn entry(reason: Reason, uid: i64) -> HistoryEntry {
        let details = Details::from([
            ("reason".to_owned(), reason.name().into()),
            ("application".to_owned(), "org.example.App".into()),
            ("uid".to_owned(), uid.into()),
        ]);
        (0, HistoryEvent::Mode.name().into(), details::to_wire(&details))
    }

    fn keys(shown: &HashMap<String, OwnedVariant>) -> Vec<&str> {
        let mut keys: Vec<_> = shown.keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn application_and_reason_of_a_hold_are_for_its_user_and_root() {
        for viewer in [Viewer::User(Some(OWNER)), Viewer::User(Some(0)), Viewer::Administrator] {
            let shown = show_hold(&hold(Some(OWNER)), viewer);
            assert_eq!(keys(&shown), ["application", "cookie", "mode", "reason", "uid"], "{viewer:?}");
        }
        for viewer in [Viewer::User(Some(1001)), Viewer::User(None)] {
            assert_eq!(keys(&show_hold(&hold(Some(OWNER)), viewer)), ["cookie", "mode", "uid"], "{viewer:?}");
        }
        assert_eq!(keys(&show_hold(&hold(None), Viewer::User(None))), ["cookie", "mode"], "nobody knows whose it is");
    }

    #[test]
    fn the_history_of_holds_is_for_their_user_and_root() {
        let seen_by = |viewer, entry| show_history(vec![entry], viewer)[0].2.contains_key(PRIVATE);
        for viewer in [Viewer::User(Some(OWNER)), Viewer::User(Some(0)), Viewer::Administrator] {
            assert!(seen_by(viewer, entry(Reason::Hold, OWNER.into())), "{viewer:?}");
        }
        for viewer in [Viewer::User(Some(1001)), Viewer::User(None)] {
            assert!(!seen_by(viewer, entry(Reason::Hold, OWNER.into())), "{viewer:?}");
            assert!(!seen_by(viewer, entry(Reason::Hold, -1)), "{viewer:?}");
            assert!(seen_by(viewer, entry(Reason::Choice, OWNER.into())), "other reasons hide nothing");
        }
    }
}
