//! Which caller may do what.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use scherzo_api::Error;
use scherzo_api::catalogue::{NO_POLKIT, gettext_noop};
use tracing::{debug, warn};
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::message::{Flags, Header};
use zbus_polkit::policykit1::{AuthorityProxy, AuthorizationResult, CheckAuthorizationFlags, Subject};

/// Decides whether the sender of a message may do something.
pub trait Authorizer: Send + Sync {
    /// `action` is a polkit action, see [`scherzo_api::names`].
    fn check<'a>(
        &'a self,
        bus: &'a Connection,
        call: &'a Header<'a>,
        action: &'a str,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// Asks polkit, except about one user who may do everything.
#[derive(Debug)]
pub struct Polkit {
    /// The user: root, but for a service that is simulated.
    pub trusted_uid: Option<u32>,
    /// It did not answer the last time, which was told.
    is_silent: AtomicBool,
}

impl Polkit {
    /// Trusts this user.
    #[must_use]
    pub fn trusting(trusted_uid: Option<u32>) -> Self {
        Self { trusted_uid, is_silent: AtomicBool::new(false) }
    }
}

impl Authorizer for Polkit {
    fn check<'a>(
        &'a self,
        bus: &'a Connection,
        call: &'a Header<'a>,
        action: &'a str,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if self.trusted_uid.is_some() && self.trusted_uid == sender_uid(bus, call).await {
                return Ok(());
            }
            let interactive = call.primary().flags().contains(Flags::ALLOW_INTERACTIVE_AUTH);
            match ask_polkit(bus, call, action, interactive).await {
                Ok(answer) => {
                    self.is_silent.store(false, Ordering::Relaxed);
                    check_answer(&answer, interactive, action)
                }
                Err(error) => {
                    // A caller that asks again and again does not fill the journal.
                    if !self.is_silent.swap(true, Ordering::Relaxed) {
                        warn!("cannot ask polkit about {action}: {error}");
                    }
                    Err(Error::AccessDenied(NO_POLKIT.into()))
                }
            }
        })
    }
}

/// The user whose program sent the message, if the bus knows.
pub(crate) async fn sender_uid(bus: &Connection, call: &Header<'_>) -> Option<u32> {
    let sender = call.sender()?.to_owned();
    let proxy = DBusProxy::new(bus).await.ok()?;
    match proxy.get_connection_unix_user(sender.into()).await {
        Ok(uid) => Some(uid),
        Err(error) => {
            debug!("the bus does not know who called: {error}");
            None
        }
    }
}

async fn ask_polkit(
    bus: &Connection,
    call: &Header<'_>,
    action: &str,
    interactive: bool,
) -> Result<AuthorizationResult, Box<dyn std::error::Error + Send + Sync>> {
    let subject = Subject::new_for_message_header(call)?;
    let flags =
        if interactive { CheckAuthorizationFlags::ALLOW_USER_INTERACTION } else { CheckAuthorizationFlags::empty() };
    let authority = AuthorityProxy::new(bus).await?;
    Ok(authority.check_authorization(&subject, action, &HashMap::new(), flags, "").await?)
}

fn check_answer(answer: &AuthorizationResult, interactive: bool, action: &str) -> Result<(), Error> {
    if answer.is_authorized {
        Ok(())
    } else if answer.is_challenge && !interactive {
        Err(Error::InteractiveAuthorizationRequired(
            gettext_noop(
                "This needs authentication. Call it from a program that allows a password prompt, or use sudo.",
            )
            .into(),
        ))
    } else {
        debug!("polkit denies {action}");
        Err(Error::AccessDenied(
            gettext_noop("You may not do this. Ask an administrator, or use sudo if you are one.").into(),
        ))
    }
}
