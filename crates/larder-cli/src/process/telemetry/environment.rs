//! What the variables of OpenTelemetry want exported. The exporters read the others themselves.

use anyhow::{Result, ensure};
use opentelemetry_sdk::Resource;

/// What is sent to a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exports {
    pub(super) spans: bool,
    pub(super) figures: bool,
    /// Whether an endpoint is `https://`.
    pub(super) has_tls: bool,
}

impl Exports {
    /// What the variables say, of which empty ones are not set.
    ///
    /// # Errors
    /// For a value that cannot be followed. The error names the variable.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Exports> {
        let set = |name: String| {
            let value = variable(&name).filter(|value| !value.is_empty())?;
            Some((name, value))
        };
        let mut exports = Exports::default();
        if set("OTEL_SDK_DISABLED".to_owned()).is_some_and(|(_, value)| value.eq_ignore_ascii_case("true")) {
            return Ok(exports);
        }
        for (kind, is_sent) in [("TRACES", &mut exports.spans), ("METRICS", &mut exports.figures)] {
            let of_kind = |what: &str| {
                set(format!("OTEL_EXPORTER_OTLP_{kind}_{what}"))
                    .or_else(|| set(format!("OTEL_EXPORTER_OTLP_{what}")))
            };
            let Some((name, endpoint)) = of_kind("ENDPOINT") else { continue };
            if let Some((name, exporter)) = set(format!("OTEL_{kind}_EXPORTER")) {
                ensure!(
                    matches!(&*exporter, "otlp" | "none"),
                    "{name} is {exporter:?}, expected otlp or none"
                );
                if exporter == "none" {
                    continue;
                }
            }
            if let Some((name, protocol)) = of_kind("PROTOCOL") {
                ensure!(
                    protocol == "http/protobuf",
                    "{name} is {protocol:?}, expected http/protobuf, which a collector takes on port 4318"
                );
            }
            let has_tls = endpoint.starts_with("https://");
            ensure!(
                has_tls || endpoint.starts_with("http://"),
                "{name} is {endpoint:?}, expected http://HOST:PORT or https://HOST:PORT of a collector"
            );
            *is_sent = true;
            exports.has_tls |= has_tls;
        }
        // The exporters take their defaults for what they cannot read.
        for name in ["OTEL_METRIC_EXPORT_INTERVAL", "OTEL_BSP_SCHEDULE_DELAY"] {
            let Some((name, value)) = set(name.to_owned()).filter(|_| exports.any()) else { continue };
            let is_time = value.parse().is_ok_and(|milliseconds: u32| milliseconds > 0);
            ensure!(is_time, "{name} is {value:?}, expected a number of milliseconds");
        }
        Ok(exports)
    }

    /// Whether there is anything to send.
    pub(super) fn any(self) -> bool {
        self.spans || self.figures
    }
}

/// What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say of the process, and our name.
pub(super) fn resource() -> Resource {
    let has_name = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"].iter().any(|name| {
        std::env::var(name).is_ok_and(|text| *name == "OTEL_SERVICE_NAME" || text.contains("service.name="))
    });
    let resource = Resource::builder();
    if has_name { resource.build() } else { resource.with_service_name("larder").build() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    fn of(variables: &[(&str, &str)]) -> Result<[bool; 3], String> {
        let value = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        let exports = Exports::of(value).map_err(|error| error.to_string())?;
        Ok([exports.spans, exports.figures, exports.has_tls])
    }

    #[test]
    fn both_kinds_are_sent_where_an_endpoint_is_named() {
        assert_eq!(of(&[]), Ok([false; 3]));
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Ok([false; 3]));
        assert_eq!(of(&[ENDPOINT]), Ok([true, true, false]));
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://collector.example/own");
        assert_eq!(of(&[own]), Ok([false, true, true]), "nothing goes to a place that nobody named");
        assert_eq!(of(&[ENDPOINT, own]), Ok([true, true, true]));
    }

    #[test]
    fn kind_can_be_switched_off() {
        assert_eq!(of(&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")]), Ok([true, false, false]));
        assert_eq!(of(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]), Ok([false, true, false]));
        assert_eq!(of(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "otlp")]), Ok([true, true, false]));
        let expected = "OTEL_TRACES_EXPORTER is \"zipkin\", expected otlp or none";
        assert_eq!(of(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "zipkin")]), Err(expected.to_owned()));
        for disabled in ["true", "TRUE"] {
            assert_eq!(
                of(&[("OTEL_SDK_DISABLED", disabled), ("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://x")]),
                Ok([false; 3])
            );
        }
        assert_eq!(of(&[("OTEL_SDK_DISABLED", "1"), ENDPOINT]), Ok([true, true, false]), "only true is true");
    }

    #[test]
    fn time_that_cannot_be_read_is_an_error() {
        for name in ["OTEL_METRIC_EXPORT_INTERVAL", "OTEL_BSP_SCHEDULE_DELAY"] {
            assert_eq!(of(&[ENDPOINT, (name, "100")]), Ok([true, true, false]));
            assert_eq!(of(&[(name, "1m")]), Ok([false; 3]), "nothing is exported");
            for wrong in ["1m", "0", "-1"] {
                let expected = format!("{name} is {wrong:?}, expected a number of milliseconds");
                assert_eq!(of(&[ENDPOINT, (name, wrong)]), Err(expected));
            }
        }
    }

    #[test]
    fn protocol_that_is_not_there_is_an_error() {
        let expected = |name: &str| {
            Err(format!("{name} is \"grpc\", expected http/protobuf, which a collector takes on port 4318"))
        };
        for name in ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"] {
            assert_eq!(of(&[ENDPOINT, (name, "http/protobuf")]), Ok([true, true, false]));
            assert_eq!(of(&[ENDPOINT, (name, "grpc")]), expected(name));
        }
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf");
        let metrics = ("OTEL_METRICS_EXPORTER", "none");
        let general = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        assert_eq!(
            of(&[ENDPOINT, traces, metrics, general]),
            Ok([true, false, false]),
            "the own variable comes first"
        );
    }
}
