//! The W3C trace context of a request (<https://www.w3.org/TR/trace-context/>).

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

tokio::task_local! {
    static CURRENT: Option<TraceId>;
}

/// The id of the trace to which a request belongs. It is the caller's choice and proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(NonZeroU128);

impl TraceId {
    /// Returns the trace of the request that this task answers, if the request named one.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(|trace| *trace).ok().flatten()
    }

    /// Runs `work` for a request of this trace.
    pub(crate) fn scope<T>(
        trace: Option<Self>,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        CURRENT.scope(trace, work)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The span of a caller, as the header `traceparent` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace_id: TraceId,
    span_id: NonZeroU64,
    is_sampled: bool,
}

impl TraceContext {
    /// Reads the value of a header `traceparent`; `None` if the value is not valid. Of a version
    /// later than 00, this reads the parts that version 00 has, as the recommendation requires.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        const LEN: usize = "00-".len() + 32 + "-".len() + 16 + "-00".len();
        let (known, rest) = header.split_at_checked(LEN)?;
        let parts: Vec<&[u8]> = known.split(|byte| *byte == b'-').collect();
        let &[version, trace_id, span_id, flags] = parts.as_slice() else {
            return None;
        };
        let is_whole = match hex(version, 2)? {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        if !is_whole {
            return None;
        }
        Some(Self {
            trace_id: TraceId(NonZeroU128::new(hex(trace_id, 32)?)?),
            span_id: NonZeroU64::new(hex(span_id, 16)?.try_into().ok()?)?,
            is_sampled: hex(flags, 2)? & 1 == 1,
        })
    }
}

/// The context as a `traceparent` of version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (self.trace_id, self.span_id);
        write!(
            f,
            "00-{trace}-{span:016x}-{:02x}",
            u8::from(self.is_sampled)
        )
    }
}

/// Returns the value of this number of hexadecimal digits in lower case.
fn hex(digits: &[u8], count: usize) -> Option<u128> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != count || !digits.iter().all(is_digit) {
        return None;
    }
    let text = std::str::from_utf8(digits).ok()?;
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn read(header: &str) -> Option<String> {
        let context = TraceContext::parse(header.as_bytes())?;
        assert_eq!(context.trace_id.to_string(), TRACE, "{header}");
        Some(context.to_string())
    }

    #[test]
    fn a_valid_traceparent_is_read() {
        for (flags, sampled) in [("00", "00"), ("01", "01"), ("03", "01"), ("fe", "00")] {
            let header = format!("00-{TRACE}-{SPAN}-{flags}");
            assert_eq!(read(&header), Some(format!("00-{TRACE}-{SPAN}-{sampled}")));
        }
    }

    #[test]
    fn a_traceparent_of_a_later_version_is_read_as_far_as_version_00_defines_it() {
        let expected = Some(format!("00-{TRACE}-{SPAN}-01"));
        for header in [
            format!("01-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01"),
            format!("fe-{TRACE}-{SPAN}-01-what-the-future-adds"),
            format!("01-{TRACE}-{SPAN}-01-"),
        ] {
            assert_eq!(read(&header), expected, "{header}");
        }
    }

    #[test]
    fn a_traceparent_of_a_wrong_shape_is_ignored() {
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        let upper = TRACE.to_uppercase();
        for header in [
            String::new(),
            "-".into(),
            "00".into(),
            "null".into(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-011"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("FE-{TRACE}-{SPAN}-01"),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{upper}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0A"),
            format!("00-{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}0{SPAN}-01-"),
            format!("00-{}x-{SPAN}-01", &TRACE[1..]),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}-{SPAN}-\u{e9}"),
            format!("00_{TRACE}_{SPAN}_01"),
        ] {
            assert_eq!(TraceContext::parse(header.as_bytes()), None, "{header:?}");
        }
    }
}
