//! The languages: their clients, and the commands that run their cases with the installed libraries.

use larder_testkit::{needs, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A language and its clients or queues, each of which has a case with a restart of the server.
pub(super) struct Language {
    folder: &'static str,
    /// The program of their cases in this folder, without its extension.
    program: &'static str,
    pub(super) clients: &'static [&'static str],
    command: fn(&Language) -> Option<Command>,
}

pub(super) const PYTHON: Language = Language {
    folder: "python",
    program: "main",
    clients: &[
        "redis-py",
        "Django",
        "django-redis",
        "dogpile.cache",
        "Flask-Limiter",
        "Flask-Caching",
        "Flask-Session",
        "limits",
        "django-cacheops",
        "python-redis-lock",
    ],
    command: python,
};

pub(super) const PYTHON_QUEUES: Language =
    Language { folder: "python", program: "queues", clients: &["Celery", "kombu", "RQ"], command: python };

pub(super) const NODE: Language = Language {
    folder: "node",
    program: "main",
    clients: &["node-redis", "ioredis", "redlock", "rate-limiter-flexible", "connect-redis", "cache-manager"],
    command: node,
};

pub(super) const NODE_QUEUES: Language =
    Language { folder: "node", program: "queues", clients: &["BullMQ"], command: node };

pub(super) const GO: Language = Language {
    folder: "go",
    program: "main",
    clients: &["go-redis", "go-redis/cache", "redsync", "rueidis"],
    command: go,
};

pub(super) const JAVA: Language = Language {
    folder: "java",
    program: "Main",
    clients: &["Jedis", "Lettuce", "Redisson", "Spring Session"],
    command: java,
};

pub(super) const PHP: Language =
    Language { folder: "php", program: "main", clients: &["phpredis", "Predis"], command: php };

pub(super) const PHP_QUEUES: Language =
    Language { folder: "php", program: "queues", clients: &["Laravel"], command: laravel };

pub(super) const RUBY: Language = Language {
    folder: "ruby",
    program: "main",
    clients: &["redis-rb", "Rails' RedisCacheStore"],
    command: ruby,
};

pub(super) const ALL: [Language; 6] = [PYTHON, NODE, GO, JAVA, PHP, RUBY];

pub(super) const QUEUES: [Language; 3] = [PYTHON_QUEUES, NODE_QUEUES, PHP_QUEUES];

impl Language {
    /// The command that runs the cases; `None` if something that it needs is not installed.
    pub(super) fn command(&self) -> Option<Command> {
        (self.command)(self)
    }

    /// The file with the program of the cases.
    fn file(&self, extension: &str) -> PathBuf {
        self.source().join(self.program).with_extension(extension)
    }

    /// Its folder.
    fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client_libraries").join(self.folder)
    }

    /// The folder below the target folder with the libraries of a lock file; `None` if these are not installed.
    fn installed(&self, lock: &str) -> Option<PathBuf> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
        let folder = target.join("client-libraries").join(self.folder);
        let required = std::fs::read(self.source().join(lock)).expect("the lock file can be read");
        let is_current = std::fs::read(folder.join("installed")).is_ok_and(|installed| installed == required);
        let what = format!("the set of {} client libraries (run `cargo xtask install`)", self.folder);
        needs(&what, is_current)?;
        Some(folder)
    }
}

fn python(language: &Language) -> Option<Command> {
    let mut command = Command::new(program("python3")?);
    let folder = language.installed("requirements.txt")?;
    // Nothing is written beside the program.
    command.env("PYTHONPATH", folder.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(language.file("py"));
    Some(command)
}

/// Node.js finds packages in the folders above a program, so the program is copied below them. Each has a folder of its own:
/// they may run at the same time.
fn node(language: &Language) -> Option<Command> {
    let mut command = Command::new(program("node")?);
    let folder = language.installed("package-lock.json")?;
    let folder = folder.join("programs").join(language.program);
    copy_files(&language.source(), &folder, "mjs");
    command.arg(folder.join(language.program).with_extension("mjs"));
    Some(command)
}

fn go(language: &Language) -> Option<Command> {
    let go = program("go")?;
    let folder = language.installed("go.sum")?;
    let binary = folder.join("cases");
    let mut build = Command::new(go);
    build.arg("build").arg("-o").arg(&binary).arg(".").current_dir(language.source());
    build.env("GOMODCACHE", folder.join("modules")).env("GOCACHE", folder.join("build"));
    build.env("GOFLAGS", "-mod=readonly").env("GOPROXY", "off").env("GOTOOLCHAIN", "local");
    succeed(&mut build);
    Some(Command::new(binary))
}

fn java(language: &Language) -> Option<Command> {
    let (java, compiler) = (program("java")?, program("javac")?);
    let folder = language.installed("pom.xml")?;
    let classes = folder.join("classes");
    let path = format!("{}:{}/*", classes.display(), folder.join("libraries").display());
    let mut compile = Command::new(compiler);
    compile.args(["-nowarn", "-cp", &path, "-d"]).arg(&classes);
    compile.args(files(&language.source(), "java"));
    succeed(&mut compile);
    let mut command = Command::new(java);
    // Starts faster, and the cases are short.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, language.program]);
    Some(command)
}

fn php(language: &Language) -> Option<Command> {
    let mut command = Command::new(program("php")?);
    needs("php-redis (run `cargo xtask install`)", Path::new("/usr/share/doc/php-redis").exists())?;
    needs("php-predis (run `cargo xtask install`)", Path::new("/usr/share/php/Predis").exists())?;
    command.arg(language.file("php"));
    Some(command)
}

fn laravel(language: &Language) -> Option<Command> {
    for package in ["Cache", "Container", "Events", "Queue", "Redis"] {
        let is_installed = Path::new("/usr/share/php/Illuminate").join(package).exists();
        needs(&format!("Laravel's {package} (run `cargo xtask install`)"), is_installed)?;
    }
    php(language)
}

fn ruby(language: &Language) -> Option<Command> {
    let mut command = Command::new(program("ruby")?);
    for package in ["ruby-redis", "ruby-activesupport"] {
        let is_installed = Path::new("/usr/share/doc").join(package).exists();
        needs(&format!("{package} (run `cargo xtask install`)"), is_installed)?;
    }
    command.arg(language.file("rb"));
    Some(command)
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of the cases can be read");
    let paths = entries.map(|entry| entry.expect("the folder of the cases can be read").path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn copy_files(from: &Path, to: &Path, extension: &str) {
    std::fs::create_dir_all(to).expect("the folder of the program can be created");
    for file in files(from, extension) {
        let name = file.file_name().expect("files have names");
        // Not `copy`: the permissions of the source do not matter.
        std::fs::write(to.join(name), std::fs::read(&file).unwrap()).expect("the program can be copied");
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
