//! QR codes of short links, as SVG and PNG.

use png::{BitDepth, ColorType, Encoder};
use qrcode::render::svg;
use qrcode::types::{Color, QrError};
use qrcode::{EcLevel, QrCode};

/// Light modules around the code (ISO/IEC 18004, section 9.1).
const QUIET_ZONE: usize = 4;
/// Pixels of one module of a PNG: sharp on paper up to about 5 cm.
const PNG_MODULE: usize = 12;

/// An image of a code.
pub(crate) struct Image {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// The code of an address as SVG, which scales to any size.
pub(crate) fn svg(address: &str) -> Result<Image, QrError> {
    let image = encode(address)?
        .render::<svg::Color<'_>>()
        .min_dimensions(256, 256)
        .dark_color(svg::Color("#000"))
        .light_color(svg::Color("#fff"))
        .build();
    Ok(Image { content_type: "image/svg+xml", bytes: image.into_bytes() })
}

/// The code of an address as PNG with one bit a pixel.
pub(crate) fn png(address: &str) -> Result<Image, QrError> {
    let code = encode(address)?;
    let pixels = (code.width() + 2 * QUIET_ZONE) * PNG_MODULE;
    let rows = (0..pixels).flat_map(|y| row(&code, y / PNG_MODULE, pixels));
    let bitmap: Vec<u8> = rows.collect();
    let mut bytes = Vec::new();
    let side = u32::try_from(pixels).map_err(|_| QrError::DataTooLong)?;
    let mut encoder = Encoder::new(&mut bytes, side, side);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::One);
    // Writing to memory fails only if the bitmap has another size than the header says.
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&bitmap));
    written.map_err(|_| QrError::DataTooLong)?;
    Ok(Image { content_type: "image/png", bytes })
}

/// Level M restores 15 % of the code, which is usual for print.
fn encode(address: &str) -> Result<QrCode, QrError> {
    QrCode::with_error_correction_level(address, EcLevel::M)
}

/// One row of pixels, eight in a byte; 1 is light.
fn row(code: &QrCode, y: usize, pixels: usize) -> Vec<u8> {
    let module = |position: usize| position.checked_sub(QUIET_ZONE).filter(|&module| module < code.width());
    let is_dark = |x: usize| {
        let at = module(x / PNG_MODULE).zip(module(y));
        at.is_some_and(|at| code[at] == Color::Dark)
    };
    let byte =
        |start: usize| (start..start + 8).fold(0, |byte, x| byte << 1 | u8::from(x >= pixels || !is_dark(x)));
    (0..pixels).step_by(8).map(byte).collect()
}
