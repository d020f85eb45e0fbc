//! The account with an authority (RFC 8555 §7.3): made once, kept, and used for all orders there.

use instant_acme::{Account, AccountCredentials, Error, NewAccount};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tls::settings::Acme;

use super::aside;
use super::client::Client;
use super::store::Store;

/// What is kept of an account: its key is in it.
#[derive(Serialize, Deserialize)]
struct Kept {
    contact: Option<String>,
    credentials: Value,
}

/// The account that is kept, or a new one. To write `acme` is to agree to the authority's terms, as the documentation says.
///
/// # Errors
/// The authority cannot be reached, or does not want it; or it cannot be kept, so that the next one would be yet another.
pub async fn open(acme: &Acme, store: &Store, client: &Client) -> Result<Account, String> {
    let (place, contact) = (store.clone(), acme.contact.clone());
    let kept = aside(move || place.read::<Kept>(FILE)).await?;
    let contacts: Vec<String> = contact.iter().map(|it| format!("mailto:{it}")).collect();
    let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
    let builder = Account::builder_with_http(Box::new(client.clone()));
    let said = |error: Error| error.to_string();
    let (account, credentials) = match kept {
        Some(kept) => {
            let credentials = serde_json::from_value(kept.credentials.clone());
            let credentials: AccountCredentials = credentials.map_err(|error| error.to_string())?;
            let account = builder.from_credentials(credentials).await;
            let account = account.map_err(said)?;
            if kept.contact == contact {
                return Ok(account);
            }
            account.update_contacts(&contacts).await.map_err(said)?;
            (account, kept.credentials)
        }
        None => {
            let wanted = NewAccount {
                contact: &contacts,
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            let made = builder.create(&wanted, acme.directory.clone(), None).await;
            let (account, credentials) = made.map_err(said)?;
            let credentials = serde_json::to_value(&credentials);
            (account, credentials.map_err(|error| error.to_string())?)
        }
    };
    let text = serde_json::to_vec(&Kept {
        contact,
        credentials,
    });
    let text = text.map_err(|error| error.to_string())?;
    let place = store.clone();
    aside(move || place.write(FILE, &text)).await?;
    Ok(account)
}

/// Forgets the account: the authority does not know it any more.
///
/// # Errors
/// It is still there.
pub async fn forget(store: &Store) -> Result<(), String> {
    let place = store.clone();
    aside(move || place.remove(FILE)).await
}

/// Whether the authority does not know the account (§6.7).
#[must_use]
pub fn is_unknown(error: &Error) -> bool {
    let kind = match error {
        Error::Api(problem) => problem.r#type.as_deref(),
        _ => None,
    };
    kind == Some("urn:ietf:params:acme:error:accountDoesNotExist")
}

/// No host has an underscore.
const FILE: &str = "_account.json";
