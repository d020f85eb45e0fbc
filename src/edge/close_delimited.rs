//! Answers of unknown length for HTTP/1.0 clients, which know no chunks: the end of the connection is the end of the
//! answer (RFC 9112 §6.3).
//!
//! Pingora adds `Transfer-Encoding: chunked` after the proxy's own filters, whatever the client speaks. This module's
//! filter comes after that and takes it away again.

use std::any::Any;

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::modules::http::{HttpModule, HttpModuleBuilder, Module};
use pingora_http::{RequestHeader, ResponseHeader};

/// Makes the module for each request.
pub struct CloseDelimited;

impl HttpModuleBuilder for CloseDelimited {
    fn init(&self) -> Module {
        Box::new(ForRequest { http10: false })
    }
}

struct ForRequest {
    http10: bool,
}

#[async_trait]
impl HttpModule for ForRequest {
    async fn request_header_filter(&mut self, request: &mut RequestHeader) -> Result<()> {
        self.http10 = request.version == http::Version::HTTP_10;
        Ok(())
    }

    async fn response_header_filter(
        &mut self,
        response: &mut ResponseHeader,
        _: bool,
    ) -> Result<()> {
        if self.http10 {
            response.remove_header("transfer-encoding");
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
