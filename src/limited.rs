//! How often clients have met each limit.

use std::sync::atomic::{AtomicU64, Ordering};

/// A limit that a client can meet, by its key in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A head that was not whole in time: 408.
    RequestHead,
    /// A body that stood still: 408.
    Body,
    /// A body that was too slow on the whole: 408.
    BodyRate,
    /// A client that took nothing of an answer: cut.
    Send,
    /// A client that took an answer too slowly on the whole: cut.
    SendRate,
    /// A head too large: 431.
    HeadSize,
    /// A URL too long: 414.
    Url,
    /// Too many fields: 431.
    Headers,
    /// A body too large: 413.
    MaxBody,
    /// Too many connections: closed at once.
    Connections,
    /// Too many connections of one address: closed at once.
    ConnectionsPerAddress,
    /// A connection that has had its requests: closed after the answer.
    RequestsPerConnection,
    /// Too many requests of one address: 429.
    RateLimits,
    /// A connection that did not begin with what `proxy_protocol` asks for, or not from a peer that is trusted: closed.
    ProxyProtocol,
}

impl Limit {
    const ALL: [Limit; 14] = [
        Limit::RequestHead,
        Limit::Body,
        Limit::BodyRate,
        Limit::Send,
        Limit::SendRate,
        Limit::HeadSize,
        Limit::Url,
        Limit::Headers,
        Limit::MaxBody,
        Limit::Connections,
        Limit::ConnectionsPerAddress,
        Limit::RequestsPerConnection,
        Limit::RateLimits,
        Limit::ProxyProtocol,
    ];

    /// Its key in the settings, which is its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Limit::RequestHead => "request_head",
            Limit::Body => "body",
            Limit::BodyRate => "body_rate",
            Limit::Send => "send",
            Limit::SendRate => "send_rate",
            Limit::HeadSize => "head_size",
            Limit::Url => "url",
            Limit::Headers => "headers",
            Limit::MaxBody => "max_body",
            Limit::Connections => "connections",
            Limit::ConnectionsPerAddress => "connections_per_address",
            Limit::RequestsPerConnection => "requests_per_connection",
            Limit::RateLimits => "rate_limits",
            Limit::ProxyProtocol => "proxy_protocol",
        }
    }
}

/// The counters of all limits. Nothing that goes well touches them.
#[derive(Debug, Default)]
pub struct Limited([AtomicU64; Limit::ALL.len()]);

impl Limited {
    /// A client has met a limit.
    pub fn count(&self, limit: Limit) {
        if let Some(counter) = self.0.get(limit as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often each was met.
    pub fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counters = Limit::ALL.into_iter().zip(&self.0);
        counters.map(|(limit, counter)| (limit.as_str(), counter.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_a_counter_of_its_own() {
        let limited = Limited::default();
        for (times, limit) in Limit::ALL.into_iter().enumerate() {
            for _ in 0..times {
                limited.count(limit);
            }
        }
        let counted: Vec<_> = limited.counted().map(|(_, count)| count).collect();
        assert_eq!(counted, (0..Limit::ALL.len() as u64).collect::<Vec<_>>());
    }
}
