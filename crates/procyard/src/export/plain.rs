//! Output as bytes, and output as safe text.
//!
//! Not for times or streams: the other forms have those.

use std::io::{Result, Write};

use procyard_manifest::Manifest;
use procyard_spool::Page;
use procyard_text::Renderer;

use super::Format;

/// Exactly the bytes that were printed.
pub(super) struct Raw;

impl Format for Raw {
    fn begin(&mut self, _: &Manifest, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }

    fn page(&mut self, page: &Page, out: &mut dyn Write) -> Result<()> {
        out.write_all(&page.bytes)
    }

    fn end(&mut self, _: &Manifest, _: u64, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }
}

/// What a model would have been shown, without collapsing repaints.
#[derive(Default)]
pub(super) struct Text {
    renderer: Renderer,
    rendered: String,
}

impl Text {
    fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> Result<()> {
        self.renderer.push(bytes, &mut self.rendered);
        self.write(out)
    }

    /// What comes next is not what followed: an incomplete character ends here.
    fn interrupt(&mut self, out: &mut dyn Write) -> Result<()> {
        self.renderer.finish(&mut self.rendered);
        self.renderer = Renderer::resynchronising();
        self.write(out)
    }

    fn write(&mut self, out: &mut dyn Write) -> Result<()> {
        out.write_all(self.rendered.as_bytes())?;
        self.rendered.clear();
        Ok(())
    }
}

impl Format for Text {
    fn begin(&mut self, _: &Manifest, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }

    fn page(&mut self, page: &Page, out: &mut dyn Write) -> Result<()> {
        let mut from = 0;
        for gap in &page.gaps {
            self.push(&page.bytes[from..gap.offset], out)?;
            self.interrupt(out)?;
            from = gap.offset;
        }
        self.push(&page.bytes[from..], out)
    }

    fn end(&mut self, _: &Manifest, _: u64, out: &mut dyn Write) -> Result<()> {
        self.renderer.finish(&mut self.rendered);
        self.write(out)
    }
}
