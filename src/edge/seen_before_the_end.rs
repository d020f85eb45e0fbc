//! Read your writes: what the application has changed while it answered is seen by whoever has the answer whole.
//!
//! What it changed before its answer's head is taken in then. Pingora tells the end of an answer to its modules alone.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_core::Result;
use pingora_core::modules::http::{HttpModule, HttpModuleBuilder, Module};

use crate::descriptor_cache::DescriptorCache;

/// Makes the module for each request.
pub struct SeenBeforeTheEnd(pub Arc<DescriptorCache>);

impl HttpModuleBuilder for SeenBeforeTheEnd {
    fn init(&self) -> Module {
        Box::new(ForRequest(self.0.clone()))
    }
}

struct ForRequest(Arc<DescriptorCache>);

#[async_trait]
impl HttpModule for ForRequest {
    fn response_body_filter(&mut self, _: &mut Option<Bytes>, end: bool) -> Result<()> {
        if end {
            self.0.take_in_pending();
        }
        Ok(())
    }

    fn response_done_filter(&mut self) -> Result<Option<Bytes>> {
        self.0.take_in_pending();
        Ok(None)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
