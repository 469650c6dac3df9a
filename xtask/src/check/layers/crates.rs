//! The layers of each crate, lowest first, and what is excepted from their rules.

/// The layers of one crate.
#[derive(Debug)]
pub(super) struct CrateLayers {
    /// The crate, and its folder in `crates/`.
    pub(super) name: &'static str,
    /// The layers, lowest first, with the modules in the root of the crate. Every module is listed.
    pub(super) layers: &'static [(&'static str, &'static [&'static str])],
    /// What may break the rules. An exception that nothing needs is a fault.
    pub(super) exceptions: &'static [Exception],
}

/// What may break the rules.
#[derive(Debug)]
pub(super) enum Exception {
    /// These files form a circle.
    Circle { files: &'static [&'static str] },
}

/// Every crate with layers.
pub(super) const CRATES: &[CrateLayers] = &[
    CrateLayers {
        name: "larder",
        layers: &[
            ("basics", &["task", "unwind"]),
            ("values", &["key", "policy", "value"]),
            ("tier", &["tier"]),
            ("reports", &["report"]),
            ("node", &["node"]),
            ("coherence", &["coherence"]),
            ("fetch", &["fetch"]),
            ("view", &["view"]),
            ("shared", &["shared"]),
            ("handles", &["handle"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-links",
        layers: &[
            ("model", &["model"]),
            ("store", &["store"]),
            ("options", &["config", "error"]),
            ("service", &["service"]),
            ("web", &["web"]),
            ("import", &["import"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-engine",
        layers: &[
            ("basics", &["fork", "freshness", "mutex", "sync"]),
            ("layout", &["layout", "lock", "stats"]),
            ("time", &["entry", "time"]),
            ("policy", &["policy"]),
            ("cache", &["cache", "load", "shard"]),
            ("bytes", &["raw"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-host",
        layers: &[
            ("basics", &["counters", "keys", "names", "process", "profile", "signature", "wait"]),
            ("values", &["logs", "options", "value"]),
            ("codec", &["codec"]),
            ("forms", &["schemas"]),
            ("handles", &["cache", "completions"]),
            ("errors", &["errors"]),
            ("views", &["calls", "views"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-http",
        layers: &[
            ("values", &["status"]),
            ("fields", &["headers"]),
            ("rfc", &["rfc"]),
            ("key", &["key"]),
            ("queries", &["graphql"]),
            ("request", &["request"]),
            ("policy", &["policy"]),
            ("stored", &["stored"]),
            ("shared", &["shared"]),
            ("disk", &["disk"]),
            ("store", &["store"]),
            ("fill", &["fill"]),
            ("service", &["service"]),
            ("handles", &["handles"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-proxy",
        layers: &[
            ("errors", &["error", "stats"]),
            ("fields", &["fields"]),
            ("rules", &["rules"]),
            ("options", &["config"]),
            ("origin", &["origin"]),
            ("gate", &["gate"]),
            ("replicas", &["replicas"]),
            ("service", &["service"]),
            ("front", &["front"]),
            ("handles", &["proxy"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-server",
        layers: &[
            ("basics", &["error", "spec", "system"]),
            ("values", &["users", "values"]),
            ("client", &["client"]),
            ("observers", &["observers"]),
            ("keyspace", &["db"]),
            ("parts", &["config", "script", "stats"]),
            ("state", &["state"]),
            ("commands", &["cmd"]),
            ("threads", &["net"]),
            ("server", &["server"]),
        ],
        exceptions: &[
            // A transaction and a script dispatch commands, and `COMMAND` lists them.
            Exception::Circle {
                files: &[
                    "cmd/admin/command.rs",
                    "cmd/atomic/script.rs",
                    "cmd/atomic/transaction.rs",
                    "cmd/dispatch/mod.rs",
                    "cmd/table.rs",
                ],
            },
            // A command works with its session, which has the work of a command that takes long.
            Exception::Circle { files: &["cmd/context.rs", "cmd/session.rs", "cmd/slices.rs"] },
        ],
    },
    CrateLayers {
        name: "larder-admin",
        layers: &[
            ("basics", &["moment", "open_files", "token", "unwind"]),
            ("parts", &["parts"]),
            ("families", &["families"]),
            ("other registries", &["facade", "otel", "prometheus"]),
            ("history", &["history"]),
            ("routes", &["routes"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-cli",
        layers: &[
            ("output", &["output"]),
            ("process", &["process"]),
            ("flags", &["flags"]),
            ("options", &["options"]),
            ("parts", &["parts"]),
            ("commands", &["commands"]),
        ],
        exceptions: &[],
    },
    CrateLayers {
        name: "larder-bench",
        layers: &[
            ("basics", &["lru", "result", "tool", "usage_error"]),
            ("measurement", &["measure"]),
            ("requests", &["trace", "workload"]),
            ("subjects", &["source", "subject"]),
            ("servers", &["serve"]),
            ("suites", &["hit_ratio", "suite"]),
            ("pages", &["compare", "report"]),
            ("commands", &["command", "quick", "runner"]),
        ],
        exceptions: &[],
    },
];
