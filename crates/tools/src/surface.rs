//! What a transport serves: tools under some names, with calls that are answered by a [`Reply`].
//!
//! The native tools are one surface; each dialect is another over the same [`Toolbox`]. A transport needs to know no
//! more of them than this. Not for choosing one: that is whoever serves a client.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::definitions::ToolDefinition;
use crate::reply::Reply;
use crate::toolbox::{CallContext, Lasting, Toolbox};

/// Tools of one owner as a client sees them.
#[async_trait]
pub trait Surface: Send + Sync {
    /// What the calls end up in, for transports that offer more than tools.
    fn toolbox(&self) -> &Toolbox;

    /// When to use these tools, in a few sentences for the model. Offers nothing that the definitions do not.
    fn instructions(&self) -> &'static str;

    /// What a client is told of the tools. The same as long as the surface lives.
    fn definitions(&self) -> Arc<[ToolDefinition]>;

    /// Whether a call of this tool can give input to a process. Such calls keep the order in which they were sent:
    /// each is begun when the one before has cancelled its [`CallContext::accepted`], or is over.
    fn gives_input(&self, tool: &str) -> bool;

    /// Carries a call out. Whatever goes wrong is a [`Reply`].
    ///
    /// Dropping the future stops a foreground command that was not handed over yet; it cancels a wait; it takes
    /// back no input and no stop. Must be called within a tokio runtime. The caller says by
    /// [`Reply::handed_to_transport`] that the result is on its way.
    async fn call(&self, tool: &str, arguments: Value, context: CallContext) -> Reply;
}

const INSTRUCTIONS: &str = "Runs commands under supervision. Bash runs a command and waits for it, or with background: true \
returns at once with a process_id. Read output with ProcessOutput from the cursor that the last result gave, and let it \
wait for output, exit or a pattern instead of polling. ProcessStop ends a command with everything it started. ProcessList \
finds your processes again.";

/// The same where no command may outlive its call.
const WITHIN_THE_CALL: &str = "Runs commands under supervision. Bash runs a command and waits for its end; everything it started \
ends with it. Read what its result leaves out with ProcessOutput from the cursor that it gives. ProcessList finds your \
processes again.";

/// The same where nothing can be started.
const NOTHING_STARTS: &str = "Shows commands that ran under supervision; none can be started here. ProcessList finds your processes, \
ProcessOutput reads what they printed, ProcessStop ends one with everything it started.";

#[async_trait]
impl Surface for Toolbox {
    fn toolbox(&self) -> &Toolbox {
        self
    }

    fn instructions(&self) -> &'static str {
        match (self.runner(), self.lasting()) {
            (Err(_), _) => NOTHING_STARTS,
            (Ok(_), Lasting::Possible) => INSTRUCTIONS,
            (Ok(_), Lasting::Uncontained | Lasting::Unannounced) => WITHIN_THE_CALL,
        }
    }

    fn definitions(&self) -> Arc<[ToolDefinition]> {
        Toolbox::definitions(self)
    }

    fn gives_input(&self, tool: &str) -> bool {
        tool == "ProcessInput"
    }

    async fn call(&self, tool: &str, arguments: Value, context: CallContext) -> Reply {
        Toolbox::call(self, tool, arguments, context).await
    }
}
