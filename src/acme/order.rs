//! One order, from its beginning to the chain (RFC 8555 §7.4).

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::account;
use super::challenges::Challenges;

/// Why nothing was issued.
#[derive(Debug)]
pub enum Refused {
    /// The account is not known any more.
    Account(String),
    /// Anything else.
    Order(String),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        match account::is_unknown(&error) {
            true => Refused::Account(error.to_string()),
            false => Refused::Order(error.to_string()),
        }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused::Order(why)
    }
}

/// Orders a certificate for one host: a new key, and the chain behind it, PEM. Nobody has looked at the chain yet.
///
/// # Errors
/// The authority refuses it, or is too slow.
pub async fn order(
    account: &Account,
    host: &str,
    challenges: &Arc<Challenges>,
) -> Result<String, Refused> {
    let identifiers = [Identifier::Dns(host.to_owned())];
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    let mut waiting = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(format!("an authorization is {other:?} from the beginning").into()),
        }
        let challenge = authorization.challenge(ChallengeType::Http01);
        let mut challenge =
            challenge.ok_or_else(|| "the authority offers no HTTP-01".to_owned())?;
        let proof = challenge.key_authorization();
        let expected = challenges.expect(&challenge.token, proof.as_str());
        waiting.push(expected.ok_or_else(|| "the token of a challenge is none".to_owned())?);
        challenge.set_ready().await?;
    }
    match order.poll_ready(&POLLED).await {
        Ok(OrderStatus::Ready) => {}
        ended => return Err(why(&mut order, ended).await),
    }
    drop(waiting);
    let failed = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(failed)?;
    let mut wanted = CertificateParams::new(vec![host.to_owned()]).map_err(failed)?;
    wanted.distinguished_name = DistinguishedName::new();
    let request = wanted.serialize_request(&key).map_err(failed)?;
    order.finalize_csr(request.der()).await?;
    let chain = order.poll_certificate(&POLLED).await?;
    // The first key in a file is the one that counts.
    Ok(key.serialize_pem() + &chain)
}

/// What the authority has found when it asked for the proof: the order itself only says that it is invalid.
async fn why(order: &mut Order, ended: Result<OrderStatus, Error>) -> Refused {
    let ended = match ended {
        Ok(status) => format!("the order is {status:?}"),
        Err(error) if account::is_unknown(&error) => return error.into(),
        Err(error) => error.to_string(),
    };
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else {
            continue;
        };
        let mut found = state.challenges.iter().filter_map(|challenge| {
            let problem = challenge.error.as_ref()?;
            problem.detail.clone().or_else(|| problem.r#type.clone())
        });
        if let Some(found) = found.next() {
            return format!("the authority could not see that the host is ours: {found}").into();
        }
    }
    ended.into()
}

/// It asks from several places, one after the other.
const POLLED: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(90));
