//! X-Accel-Redirect and X-Sendfile of a script's answer, served from the descriptor cache.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::RequestHeader;

use crate::clock::Clock;
use crate::descriptor_cache::{DescriptorCache, RootGeneration};
use crate::edge::handed::Handed;
use crate::edge::rendered::{BodyPieces, response_header};
use crate::fastcgi::session::{Accel, Content, LocalAnswer, LocalAnswers};
use crate::request::head::Method;
use crate::request::target::Target;
use crate::site::{AccelTarget, Request, Script, StaticSite};
use crate::snapshot::State;

/// What is needed of a request once its script has answered with a file's name.
pub struct AccelSource {
    site: Arc<StaticSite>,
    cache: Arc<DescriptorCache>,
    generation: Arc<RootGeneration>,
    method: http::Method,
    target: Bytes,
    fields: HeaderMap,
    clock: Clock,
}

impl AccelSource {
    /// Keeps what a later answer needs: the fields for preconditions and ranges, and the root's very generation.
    pub fn new(
        handed: &Handed,
        script: &Script,
        head: &RequestHeader,
        state: &State,
    ) -> AccelSource {
        let mut fields = HeaderMap::new();
        for name in CONDITIONAL {
            for value in head.headers.get_all(name) {
                fields.append(name, value.clone());
            }
        }
        AccelSource {
            site: handed.site.clone(),
            cache: state.cache.clone(),
            generation: script.generation.clone(),
            method: head.method.clone(),
            target: handed.target.clone(),
            fields,
            clock: state.clock.clone(),
        }
    }
}

#[async_trait]
impl LocalAnswers for AccelSource {
    async fn answer(&self, file: Accel, kept: Vec<(Vec<u8>, Vec<u8>)>) -> Result<LocalAnswer> {
        // A script may answer a POST with a file: what is sent is what a GET of it would be.
        let method = match self.method {
            http::Method::HEAD => Method::Head,
            _ => Method::Get,
        };
        let target = Target::parse(&method, &self.target).map_err(|_| {
            Error::explain(
                ErrorType::InternalError,
                "the target has been parsed before",
            )
        })?;
        let request = Request {
            method,
            target: &target,
            fields: &self.fields,
            conditional: !self.fields.is_empty(),
            now: self.clock.unix(),
        };
        let wanted = match &file {
            Accel::Redirect(path) => AccelTarget::Redirect(path),
            Accel::SendFile(path) => AccelTarget::SendFile(path),
        };
        // The script may have made the file a moment ago.
        self.cache.take_in_events().await;
        let answer = self
            .site
            .accel(&request, &self.generation, wanted, &kept)
            .await;
        let header = response_header(&answer)
            .ok_or_else(|| Error::explain(ErrorType::InternalError, "an answer without a head"))?;
        Ok(LocalAnswer {
            header,
            content: Box::new(BodyPieces::from(answer.body)),
        })
    }
}

#[async_trait]
impl Content for BodyPieces {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        BodyPieces::next(self).await
    }
}

const CONDITIONAL: [&str; 6] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
];
