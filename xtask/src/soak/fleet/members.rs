//! Which processes there are, and how they are connected.
//!
//! ```text
//! up-1, up-2 ──────► redis, one database        up-2 is killed, up-1 runs from the beginning to the end
//! proxy-1, proxy-2 ─► server, origin            likewise
//! ```

use super::member::{Member, Ready};
use crate::soak::load::{PAGES, Proxy};
use crate::soak::origin;
use anyhow::{Context, Result};
use larder_process::find_program;
use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// The members of Larder that no fault ends: their slopes mean most.
pub(crate) const HELD: [&str; 2] = ["up-1", "proxy-1"];

/// Small caches, so that they are full soon.
const CONFIG: &str = "[links]\ncache_bytes = \"2mb\"\nresponse_cache_bytes = \"1mb\"\nttl_seconds = 120\n";

/// Addresses on this machine that are free.
fn addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut listeners = Vec::new();
    for _ in 0..N {
        listeners.push(TcpListener::bind("127.0.0.1:0").context("there is no free port")?);
    }
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    Ok(addresses.try_into().expect("one for each listener"))
}

/// Where the members listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) redis: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) origin: SocketAddr,
    /// Short links and dashboard of each instance, and the cache server of its own that it has besides.
    pub(crate) ups: [[SocketAddr; 3]; 2],
    /// Pages and dashboard of each proxy.
    pub(crate) proxies: [[SocketAddr; 2]; 2],
}

/// The members, and what the load needs to know of them.
pub(crate) struct Services {
    pub(crate) addresses: Addresses,
    pub(crate) members: Vec<Member>,
    pub(crate) proxies: [Proxy; 2],
    /// The folder of the pages of the origin.
    pub(crate) pages: PathBuf,
}

impl Services {
    /// Prepares their folders in an empty one. `former` is the program of another version, which the members that are killed
    /// run in turn with this one.
    pub(crate) fn prepare(larder: &Path, former: Option<&Path>, folder: &Path) -> Result<Self> {
        let [redis, server, origin, a, b, c, d, e, f, g, h, i, j] = addresses()?;
        let (ups, proxies) = ([[a, b, c], [d, e, f]], [[g, h], [i, j]]);
        let addresses = Addresses { redis, server, origin, ups, proxies };
        let pages = folder.join("pages");
        std::fs::create_dir_all(&pages)?;
        (0..PAGES).try_for_each(|page| origin::write(&pages, page, 1))?;
        std::fs::write(folder.join("larder.toml"), CONFIG)?;
        let proxies = [1, 2].map(|number| {
            let [http, admin] = proxies[number - 1];
            Proxy { http, admin, token: folder.join(format!("proxy-{number}/admin-token")) }
        });
        let members = members(&addresses, larder, former, folder)?;
        Ok(Services { addresses, members, proxies, pages })
    }
}

fn members(at: &Addresses, larder: &Path, former: Option<&Path>, folder: &Path) -> Result<Vec<Member>> {
    let path = |name: &str| folder.join(name).display().to_string();
    let member = |name: &'static str, program: &Path, words: Vec<String>, ready| {
        Member::new(name, program.to_owned(), words, ready, folder.join(format!("{name}.log")))
    };
    let redis_server = find_program("redis-server").context("redis-server is not installed")?;
    let xtask = std::env::current_exe().context("the program of xtask is not known")?;
    let (bind, port, here) = ("127.0.0.1", at.redis.port(), folder.display());
    let redis =
        words(&[&"--bind", &bind, &"--port", &port, &"--dir", &here, &"--appendonly", &"no", &"--save", &""]);
    let redis = member("redis", &redis_server, redis, Ready::Ping(at.redis));

    let snapshot = path("server.snapshot");
    let server =
        words(&[&"server", &"--listen", &at.server, &"--max-memory", &"64mb", &"--snapshot", &snapshot]);
    let server = member("server", larder, server, Ready::Ping(at.server)).of_larder();

    let origin = words(&[&"soak-origin", &at.origin, &path("pages")]);
    let origin = member("origin", &xtask, origin, Ready::Get(at.origin, "/page/1"));

    let up = |name: &'static str, [http, admin, resp]: [SocketAddr; 3]| {
        let (redis, database) = (format!("redis://{}", at.redis), format!("sqlite:{}", path("links.db")));
        let mut all = words(&[&"up", &"--config", &path("larder.toml"), &"--data", &path(name)]);
        all.extend(words(&[&"--database", &database, &"--redis", &redis, &"--max-memory", &"16mb"]));
        all.extend(words(&[&"--http", &http, &"--admin", &admin, &"--resp", &resp]));
        member(name, larder, all, Ready::Get(http, "/healthz")).of_larder()
    };
    let proxy = |name: &'static str, [http, admin]: [SocketAddr; 2]| {
        let (redis, origin) = (format!("redis://{}", at.server), format!("http://{}", at.origin));
        let mut all = words(&[&"proxy", &"--origin", &origin, &"--redis", &redis, &"--data", &path(name)]);
        all.extend(words(&[&"--listen", &http, &"--admin", &admin, &"--cache-bytes", &"4mb"]));
        member(name, larder, all, Ready::Get(http, "/page/1")).of_larder()
    };
    let [up_1, up_2] = [up("up-1", at.ups[0]), up("up-2", at.ups[1])];
    let [proxy_1, proxy_2] = [proxy("proxy-1", at.proxies[0]), proxy("proxy-2", at.proxies[1])];
    let [up_2, proxy_2] = [up_2, proxy_2].map(|member| member.alternating_with(former));
    Ok(vec![redis, server, origin, up_1, up_2, proxy_1, proxy_2])
}

fn words(words: &[&dyn Display]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
